"""Connects to a scheduler of Dask distributed, to run tasks on its workers."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from enginebay import __version__
from enginebay.environment import install_command, installed_version
from enginebay.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Executor

#: Time limit for the scheduler's first answer, and again for its first worker.
CONNECT_SECONDS = 10.0


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """Connect to a Dask scheduler, check its workers, and yield an executor.

    Args:
        address: ``tcp://HOST:PORT``.

    Raises:
        MissingDependencyError: Dask's ``distributed`` is not installed.
        UsageError: No scheduler answers at the address, the scheduler has no worker, or a version
            of Dask or Enginebay differs from the local version.
    """
    try:
        from distributed import Client
    except ImportError as err:
        raise MissingDependencyError(
            f"a Dask scheduler requires 'distributed', which cannot be imported: {err}",
            hint=install_command("enginebay-lab[dask]"),
        ) from err
    expected = {"distributed": installed_version("distributed") or ""}
    try:
        versions = _read_scheduler_versions(address)
    except Exception as err:  # many classes: a wrong address, no scheduler, another protocol
        text = f": {err}" if str(err) else f" within {CONNECT_SECONDS:g} s"
        raise UsageError(
            f"no Dask scheduler answers at '{address}'{text}",
            hint="start a scheduler at tcp://HOST:8786: dask scheduler --host HOST --port 8786",
        ) from err
    _check_versions("the scheduler", versions, expected)
    with Client(address, timeout=CONNECT_SECONDS) as client:
        with suppress(TimeoutError):
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        workers = client.get_versions(packages=["enginebay"])["workers"]
        if not workers:
            raise UsageError(
                f"the scheduler at '{address}' has no worker",
                hint=f"start a worker: dask worker {address}",
            )
        for worker, versions in workers.items():
            required = {**expected, "enginebay": __version__}
            _check_versions(f"the worker {worker}", versions["packages"], required)
        # Dask runs equal "pure" tasks only once, and an overdue task is sent again unchanged.
        yield client.get_executor(pure=False)


def _read_scheduler_versions(address: str) -> dict[str, object]:
    # By a plain RPC: a Client of another Dask version fails before it can report the versions.
    import asyncio

    from distributed.core import rpc

    async def request_versions() -> dict[str, object]:
        async with rpc(address, timeout=CONNECT_SECONDS) as scheduler:
            reply = await asyncio.wait_for(scheduler.versions(), CONNECT_SECONDS)
            packages: dict[str, object] = reply["packages"]
            return packages

    with ThreadPoolExecutor(1) as pool:  # in a notebook, this thread already runs an event loop
        return pool.submit(asyncio.run, request_versions()).result()


def _check_versions(owner: str, versions: Mapping[str, object], expected: dict[str, str]) -> None:
    for name, version in expected.items():
        if versions.get(name) != version:
            actual = f"{name} {versions[name]}" if versions.get(name) else f"no {name}"
            raise UsageError(
                f"{owner} has {actual}; expected {version}, the version on this machine",
                hint=f"install the same version on both machines: pip install {name}=={version}",
            )


def announce_start(topic: str, key: str, host: str) -> None:
    """Report to the Dask client that a task has started; outside a Dask worker, do nothing."""
    from distributed import get_worker

    with suppress(ValueError):  # this process imported distributed, but is not a worker
        get_worker().log_event(topic, {"key": key, "host": host})


@contextmanager
def listen_to_starts(topic: str, on_start: Callable[[str, str], None]) -> Iterator[None]:
    """Listen to the workers' events about started tasks, if this process has a Dask client.

    Args:
        topic: The name of the Dask topic to which the workers send these events.
        on_start: Called in another thread with the key of the task and the name of the host.
    """
    distributed = sys.modules.get("distributed")
    try:
        client = distributed.default_client() if distributed else None
    except ValueError:  # this process has no client
        client = None
    if client is None:
        yield
        return

    def receive_event(event: tuple[float, dict[str, str]]) -> None:
        on_start(event[1]["key"], event[1]["host"])

    client.subscribe_topic(topic, receive_event)
    try:
        yield
    finally:
        client.unsubscribe_topic(topic)
