"""Tasks on any ``concurrent.futures.Executor``: bytes in, bytes out, and a cause for each failure.

A task runs in a child process of its worker, and the child is reused for the next task. A crash or
a hang therefore fails one task only.
"""
