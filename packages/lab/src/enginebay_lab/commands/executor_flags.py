"""``--workers`` and ``--scheduler``: work on several processes or machines."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager


def add_executor(parser: ArgumentParser, work: str, default: str) -> None:
    """Add the flags.

    Args:
        parser: The command's parser.
        work: The work as the object of a sentence: ``the cells``.
        default: What happens without ``--workers``.
    """
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help=f"run {work} in so many processes at once on this machine (default: {default})",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help=f"run {work} on the workers of this Dask scheduler, tcp://HOST:PORT",
    )


def executor(args: Namespace) -> AbstractContextManager[Executor | None]:
    """The executor that is requested; None for none.

    Raises:
        UsageError: The flags exclude one another, or there is no such scheduler.
        MissingDependencyError: Dask is not installed.
    """
    from enginebay_lab.executors.dask import dask_executor
    from enginebay_lab.executors.local import local_executor

    if args.workers is not None and args.workers < 1:
        raise UsageError(f"--workers is {args.workers}, wanted 1 or more")
    if args.scheduler is None:
        return nullcontext() if args.workers is None else local_executor(args.workers)
    if args.workers is not None:
        raise UsageError(
            "--workers is for this machine, and --scheduler has workers of its own",
            hint="leave one of them out",
        )
    return dask_executor(args.scheduler)
