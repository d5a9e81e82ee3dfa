"""Runs tasks, functions from bytes to bytes, on any ``concurrent.futures.Executor``.

A task runs in a child process of its worker, and the child is reused for the next task. A crash or
a hang therefore fails one task only.
"""
