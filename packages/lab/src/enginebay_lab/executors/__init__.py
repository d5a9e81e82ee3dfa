"""Runs tasks on any ``concurrent.futures.Executor``.

A task is a call of a function that takes bytes and returns bytes. A worker runs each task in a
child process, and reuses the child for the next task. A crash or a hang therefore fails only one
task.
"""
