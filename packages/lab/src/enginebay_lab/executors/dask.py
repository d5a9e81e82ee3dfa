"""Dask's distributed scheduler as an executor."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from enginebay import __version__
from enginebay.environment import installed_version
from enginebay.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

#: Seconds in which a scheduler must answer, and have a worker.
PATIENCE = 10.0


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """Connect to a Dask scheduler whose workers can run tasks.

    Args:
        address: ``tcp://HOST:PORT``.

    Raises:
        MissingDependencyError: Dask's distributed is not installed.
        UsageError: No scheduler answers there, it has no worker, or one of them has another
            version of Dask or of Enginebay.
    """
    try:
        from distributed import Client
    except ImportError as err:
        raise MissingDependencyError(
            f"a Dask scheduler needs 'distributed', which does not import: {err}",
            hint="pip install 'enginebay-lab[dask]'",
        ) from err
    wanted = {"distributed": installed_version("distributed") or ""}
    try:
        found = _scheduler_versions(address)
    except Exception as err:  # of many classes: a wrong address, nothing there, another protocol
        text = f": {err}" if str(err) else f" within {PATIENCE:g} s"
        raise UsageError(
            f"no Dask scheduler answers at '{address}'{text}",
            hint="dask scheduler --host HOST --port 8786 starts one at tcp://HOST:8786",
        ) from err
    _check_versions("the scheduler", found, wanted)
    with Client(address, timeout=PATIENCE) as client:
        with suppress(TimeoutError):
            client.wait_for_workers(1, timeout=PATIENCE)
        workers = client.get_versions(packages=["enginebay"])["workers"]
        if not workers:
            raise UsageError(
                f"the scheduler at '{address}' has no worker", hint=f"dask worker {address}"
            )
        for worker, versions in workers.items():
            own = {**wanted, "enginebay": __version__}
            _check_versions(f"the worker {worker}", versions["packages"], own)
        yield client.get_executor(pure=False)


def _scheduler_versions(address: str) -> dict[str, Any]:
    """The versions of a scheduler, of whatever version of Dask."""
    import asyncio

    from distributed.core import rpc

    async def ask() -> dict[str, Any]:
        async with rpc(address, timeout=PATIENCE) as scheduler:
            found = await asyncio.wait_for(scheduler.versions(), PATIENCE)
            packages: dict[str, Any] = found["packages"]
            return packages

    with ThreadPoolExecutor(1) as pool:  # a notebook has a loop in this thread already
        return pool.submit(asyncio.run, ask()).result()


def _check_versions(who: str, found: dict[str, Any], wanted: dict[str, str]) -> None:
    for name, version in wanted.items():
        if found.get(name) != version:
            has = f"{name} {found[name]}" if found.get(name) else f"no {name}"
            raise UsageError(
                f"{who} has {has}, and here is {version}",
                hint=f"pip install {name}=={version} there, or here what is there",
            )


def announce(topic: str, key: str, host: str) -> None:
    """Tell the client that a task begins; does nothing outside of a worker."""
    from distributed import get_worker

    with suppress(ValueError):  # this process has distributed imported, and is no worker
        get_worker().log_event(topic, {"key": key, "host": host})


@contextmanager
def listening(topic: str, heard: Callable[[str, str], None]) -> Iterator[None]:
    """Hear of tasks that begin on the workers of this process's client, if it has one.

    Args:
        topic: The name under which workers announce them.
        heard: Called, in another thread, with a task's key and the name of its host.
    """
    distributed = sys.modules.get("distributed")
    try:
        client = distributed.default_client() if distributed else None
    except ValueError:  # there is none
        client = None
    if client is None:
        yield
        return

    def hear(event: tuple[float, dict[str, str]]) -> None:
        heard(event[1]["key"], event[1]["host"])

    client.subscribe_topic(topic, hear)
    try:
        yield
    finally:
        client.unsubscribe_topic(topic)
