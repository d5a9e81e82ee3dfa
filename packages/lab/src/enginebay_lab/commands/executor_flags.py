"""The flags ``--workers`` and ``--scheduler``: run on several processes or machines."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager


def add_executor_flags(parser: ArgumentParser, work: str, default: str) -> None:
    """Add ``--workers`` and ``--scheduler``.

    Args:
        parser: The command's parser.
        work: What the workers run, as a noun in the help texts, such as ``the sweep``.
        default: The default number of processes, as a text in the help of ``--workers``.
    """
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help=f"run {work} in N processes at once on this machine (default: {default})",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help=f"run {work} on the workers of this Dask scheduler, tcp://HOST:PORT",
    )


def open_executor(args: Namespace) -> AbstractContextManager[Executor | None]:
    """Return a context manager that yields the executor of the workers; None if no flag is set.

    Raises:
        UsageError: Both flags are set, or the scheduler cannot be reached.
        MissingDependencyError: Dask is not installed.
    """
    from enginebay_lab.executors.dask import dask_executor
    from enginebay_lab.executors.local import local_executor

    if args.workers is not None and args.workers < 1:
        raise UsageError(f"--workers is {args.workers}, expected 1 or more")
    if args.scheduler is None:
        return nullcontext() if args.workers is None else local_executor(args.workers)
    if args.workers is not None:
        raise UsageError(
            "--workers and --scheduler cannot be combined: a scheduler has its own workers",
            hint="remove one of them",
        )
    return dask_executor(args.scheduler)
