"""The hooks of the plugin: look up each build before the backend is called, and store new builds.

A hook wrapper cannot skip the backend: pluggy requires the wrapper to yield. So the plugin
implements ``to_backend`` twice. The wrapper looks up the build, and stores a new one. The other
implementation is called before the backend, and returns the cached files if there are any.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
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
    """Warning that the cache could not be read or written; the build continues without cache."""


class Lookup:
    """The result of looking up one build in the cache.

    Attributes:
        files: The files of an earlier build, copied into the request's work_dir; None if the cache
            does not have the build.
        missed: The reasons why the cache does not have the build, one line each.
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
            files = self._store.take(self._digest, self._request.work_dir, self._request.ir.path)
        except DamagedError as err:
            self.missed = [f"the entry was damaged: {err}"]
            return
        if files is None:
            self.missed = _explain_miss(self._key, self._store)
            return
        # A simulated graph is copied into its folder, but it is not a file of the engine.
        graph = self._request.simulation
        self.files = [file for file in files if graph is None or not file.is_relative_to(graph)]

    def keep(self, files: list[str | Path]) -> None:
        """Store the files that the backend wrote, if all of them are in the work_dir."""
        if not all(isinstance(file, str | Path) for file in files):
            return  # core rejects such a list
        root = self._request.work_dir.resolve()
        written = [(root / file).resolve() for file in files]
        if not written or not all(file.is_file() and file.is_relative_to(root) for file in written):
            return  # core rejects such files
        links: list[Path] = []
        if graph := self._request.simulation:
            found = [path for path in sorted(graph.resolve().rglob("*")) if path.is_file()]
            links = [path for path in found if path.is_symlink()]
            if any(not path.samefile(self._request.ir.path) for path in links):
                return  # nobody knows where such a link leads at the next build
            written += [path for path in found if path not in links]
        paths, linked = (
            [path.relative_to(root).as_posix() for path in group] for group in (written, links)
        )
        seconds = time.perf_counter() - self._started
        try:
            self._store.keep(
                *(self._digest, self._key, root, paths),
                links=linked,
                seconds=seconds,
                missed=self.missed,
            )
        except OSError as err:
            _warn_about_cache("written", self._store, err)


def _explain_miss(key: Key, store: Store) -> list[str]:
    """Explain why no stored build has the key ``key``; return the lines of the explanation.

    The first line names the stored build with the most similar key, and the other lines the
    fields in which this key differs.
    """
    compared = [
        (list_differences(key, entry.about.key), entry.digest)
        for entry in store.entries()
        if entry.about.key.get("backend") == key["backend"]
    ]
    if not compared:
        return ["the cache has no build of this backend"]
    lines, digest = min(compared, key=lambda pair: len(pair[0]))  # the last used of equal ones
    return [f"the most similar build was {digest[:12]}", *lines]


#: The build that runs in this thread.
_lookup: ContextVar[Lookup | None] = ContextVar("lookup", default=None)

#: The folders of environment checks: these must show that the converter works, so they build.
_checks: set[Path] = set()


@eb.hookimpl(wrapper=True)
def check_env(request: CheckEnvRequest) -> Generator[None, EnvReport, EnvReport]:
    """Do not look up the builds of an environment check: the check must run the backend."""
    _checks.add(request.work_dir)
    return (yield)


@eb.hookimpl(wrapper=True)
def to_backend(request: ConvertRequest) -> Generator[None, Any, Any]:
    """Look up the build, let :func:`from_cache` or the backend run, and store a new build."""
    lookup = None if request.work_dir in _checks else _look_up(request)
    token = _lookup.set(lookup)
    try:
        files = yield
    finally:
        _lookup.reset(token)
    # Not stored: a hit, and results that core rejects, such as None and a single path.
    is_list = isinstance(files, Iterable) and not isinstance(files, str | Path)
    if lookup is None or lookup.files is not None or not is_list:
        return files
    files = list(files)  # it may be a generator
    lookup.keep(files)
    return files


# Before the backend's implementation: pluggy returns the first result that is not None.
@eb.hookimpl(specname="to_backend", tryfirst=True)
def from_cache(request: ConvertRequest) -> list[Path] | None:  # noqa: ARG001  # the hook's signature
    """Return the files of an earlier build, or None, so that pluggy calls the backend."""
    lookup = _lookup.get()
    return lookup.files if lookup else None


def _look_up(request: ConvertRequest) -> Lookup | None:
    store = Store.from_environment()
    try:
        return Lookup(request, store)
    except OSError as err:  # a broken cache must not stop a build
        _warn_about_cache("read", store, err)
        return None


def _warn_about_cache(verb: str, store: Store, err: OSError) -> None:
    message = f"the build cache '{store.root}' cannot be {verb}: {err}"
    warnings.warn(message, CacheWarning, stacklevel=2)
