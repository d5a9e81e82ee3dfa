"""Dask's distributed scheduler as an executor."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from enginebay.errors import MissingDependencyError, UsageError, first_line
from enginebay.version import __version__

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
            hint="pip install 'enginebay[dask]'",
        ) from err
    try:
        client = Client(address, timeout=PATIENCE)
    except Exception as err:  # of many classes: a wrong address, nothing there, another protocol
        raise UsageError(
            f"no Dask scheduler answers at '{address}': {first_line(err)}",
            hint="dask scheduler --host HOST --port 8786 starts one at tcp://HOST:8786",
        ) from err
    with client:
        _check_workers(client, address)
        yield client.get_executor(pure=False)


def _check_workers(client: Any, address: str) -> None:
    with suppress(TimeoutError):
        client.wait_for_workers(1, timeout=PATIENCE)
    versions = client.get_versions(packages=["enginebay"])
    if not versions["workers"]:
        raise UsageError(
            f"the scheduler at '{address}' has no worker", hint=f"dask worker {address}"
        )
    wanted = {"distributed": client.get_versions()["client"]["packages"]["distributed"]}
    _check_versions("the scheduler", versions["scheduler"]["packages"], wanted)
    wanted["enginebay"] = __version__
    for worker, found in versions["workers"].items():
        _check_versions(f"the worker {worker}", found["packages"], wanted)


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
