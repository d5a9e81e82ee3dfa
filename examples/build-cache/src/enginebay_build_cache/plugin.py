"""The hooks: a build is looked up before the backend is called, and stored afterwards.

A wrapper cannot stop the backend from being called: pluggy requires it to yield. So there are two
implementations of ``to_backend``. The wrapper is outside of all others: it looks up the build and
stores a new one. The other is called before the backend and returns the cached files, if any.
"""

from __future__ import annotations

import time
import warnings
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay_build_cache.key import Key, digest_key, list_differences, make_key
from enginebay_build_cache.store import DamagedError, Store

if TYPE_CHECKING:
    from collections.abc import Generator

    from enginebay.environment import EnvReport
    from enginebay.hooks import CheckEnvRequest, ConvertRequest


class CacheWarning(UserWarning):
    """The cache could not be read or written; the build continues without it."""


class Lookup:
    """One build, looked up in the cache.

    Attributes:
        files: The files of an earlier build, copied into the work_dir; None for a miss.
        missed: The reasons for a miss, a line each.
    """

    def __init__(self, request: ConvertRequest, store: Store) -> None:
        self.files: list[Path] | None = None
        self.missed: list[str] = []
        self._request = request
        self._store = store
        self._key: Key = make_key(request)
        self._digest = digest_key(self._key)
        self._started = time.perf_counter()
        self._look_up_files()
        verdict = f"miss, {'; '.join(self.missed)}" if self.files is None else "hit"
        request.progress(f"build cache: {self._digest[:12]} {verdict}")

    def _look_up_files(self) -> None:
        try:
            files = self._store.take(self._digest, self._request.work_dir)
        except DamagedError as err:
            self.missed = [f"the entry was damaged: {err}"]
            return
        if files is None:
            self.missed = why_missed(self._key, self._store)
            return
        # The graph is back in its folder, and none of the engine's files.
        graph = self._request.simulation
        self.files = [file for file in files if graph is None or not file.is_relative_to(graph)]

    def keep(self, files: list[Any]) -> None:
        """Store the files that the backend wrote, if all of them are in the work_dir."""
        root = self._request.work_dir.resolve()
        found = [(root / file).resolve() for file in files]
        if not found or not all(file.is_file() and file.is_relative_to(root) for file in found):
            return  # core rejects them
        if graph := self._request.simulation:
            found += [path.resolve() for path in sorted(graph.rglob("*")) if path.is_file()]
        paths = [file.relative_to(root).as_posix() for file in found]
        seconds = time.perf_counter() - self._started
        try:
            self._store.keep(
                *(self._digest, self._key, root, paths), seconds=seconds, missed=self.missed
            )
        except OSError as err:
            _warn_about_cache("written", self._store, err)


def why_missed(key: Key, store: Store) -> list[str]:
    """Return a line for each field in which a key differs from the most similar entry."""
    rivals = [one for one in store.entries() if one.about.key.get("backend") == key["backend"]]
    compared = [(list_differences(key, rival.about.key), rival.digest) for rival in rivals]
    if not compared:
        return ["no entry of this backend"]
    lines, digest = min(compared, key=lambda pair: len(pair[0]))  # the last used of equal ones
    return [f"the nearest entry was {digest[:12]}", *lines]


#: The build under way in this thread.
_lookup: ContextVar[Lookup | None] = ContextVar("lookup", default=None)

#: The folders of environment checks, whose builds must show that the converter works.
_checks: set[Path] = set()


@eb.hookimpl(wrapper=True)
def check_env(request: CheckEnvRequest) -> Generator[None, EnvReport, EnvReport]:
    """Remember the folder of the check, so that its build does not come from the cache."""
    _checks.add(request.work_dir)
    return (yield)


@eb.hookimpl(wrapper=True)
def to_backend(request: ConvertRequest) -> Generator[None, Any, Any]:
    """Look up the build, let :func:`from_cache` or the backend return it, and store a new one."""
    lookup = None if request.work_dir in _checks else _look_up(request)
    before = _lookup.set(lookup)
    try:
        files = yield
    finally:
        _lookup.reset(before)
    if lookup is None or lookup.files is not None or files is None or isinstance(files, str | Path):
        return files
    files = list(files)  # it may be a generator
    lookup.keep(files)
    return files


@eb.hookimpl(specname="to_backend", tryfirst=True)
def from_cache(request: ConvertRequest) -> list[Path] | None:  # noqa: ARG001  # the hook's signature
    """Return the files of an earlier build; None calls the backend."""
    lookup = _lookup.get()
    return lookup.files if lookup else None


def _look_up(request: ConvertRequest) -> Lookup | None:
    store = Store.from_environment()
    try:
        return Lookup(request, store)
    except OSError as err:
        _warn_about_cache("read", store, err)
        return None


def _warn_about_cache(verb: str, store: Store, err: OSError) -> None:
    message = f"the build cache '{store.root}' cannot be {verb}: {err}"
    warnings.warn(message, CacheWarning, stacklevel=2)
