"""Tasks on any ``concurrent.futures.Executor``: data in, data out, and every fault named.

A task runs in a child process of the worker that has it, which is kept for the next one: what ends
it or hangs in it costs that task alone.
"""
