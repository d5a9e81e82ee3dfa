"""Laws of processes: no file outside the work folder, no process left, no harm from a kill."""

from __future__ import annotations

import gc
import locale
import logging
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.testing.conformance.kit import Kit

#: Converts an IR as often as its last argument, then loads the artifact.
_CONVERT = """\
import sys, enginebay as eb
_, name, ir, folder, times = sys.argv
for _ in range(int(times)):
    artifact = eb.convert(ir, backend=name, work_dir=folder, overwrite=True)
eb.load(artifact).close()
"""

#: Imports the engine and loads its plugin, and does nothing with them.
_IMPORT = """\
import contextlib, sys, enginebay as eb
eb.get_backend(sys.argv[1])
for name in sys.argv[2:]:
    with contextlib.suppress(ImportError):
        __import__(name)
"""

#: Forks with a wrapper that has run, which the child calls, closes and drops before it ends, as
#: multiprocessing's children end: in a forked process an engine's own exit handlers may hang.
_FORK = """\
import gc, os, sys, time, numpy as np, enginebay as eb
from enginebay.errors import UsageError
_, name, folder, patience = sys.argv
wrapper = eb.load(folder)
inputs = {each.name: np.zeros(each.dims, each.dtype) for each in wrapper.inputs}
wrapper(inputs)
child = os.fork()
if not child:
    try:
        wrapper(inputs)
    except UsageError as err:
        print(err, flush=True)
    wrapper.close()
    del wrapper
    gc.collect()
    os._exit(0)
deadline = time.monotonic() + float(patience)
while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
    time.sleep(0.02)
if not ended[0]:
    os.kill(child, 9)
    sys.exit("the forked process hangs")
wrapper(inputs)
wrapper.close()
sys.exit(f"the forked process ended with status {ended[1]}" if ended[1] else 0)
"""

#: In front of the names of the settings that have changed.
_CHANGED = "changed settings: "

#: Imports the engine's modules, whose own settings are theirs, then converts, loads and runs.
_SETTINGS = f"""\
import contextlib, sys, numpy as np, enginebay as eb
from enginebay.testing.conformance.processes import settings_of_the_process
_, name, ir, folder, *modules = sys.argv
for module in modules:
    with contextlib.suppress(ImportError):
        __import__(module)
before = settings_of_the_process()
with eb.load(eb.convert(ir, backend=name, work_dir=folder)) as wrapper:
    wrapper({{each.name: np.zeros(each.dims, each.dtype) for each in wrapper.inputs}})
after = settings_of_the_process()
print("{_CHANGED}" + ", ".join(name for name in before if before[name] != after[name]))
"""

#: Marks the processes that belong to one run, through however many generations.
_MARK = "ENGINEBAY_CONFORMANCE_RUN"

#: Seconds that the processes of a conversion, or a forked one, may take to end on a busy machine.
_PATIENCE = 10.0


class ProcessLaws:
    """A conversion leaves the machine as it was."""

    def test_nothing_is_written_outside_the_work_dir(self, kit: Kit, tmp_path: Path) -> None:
        """Converting and loading write the artifact and nothing else.

        Files that are written when the engine is merely imported or its plugin loaded do not count,
        but for packages, which no law may install.
        """
        ir = kit.ir("fixed")
        source = _content(ir.path.parent)
        places = {name: tmp_path / name for name in ("here", "home", "temporary", "out")}
        for place in places.values():
            place.mkdir()
        home = {name: str(places["home"]) for name in ("HOME", "XDG_CACHE_HOME")}
        where = {"env": {**home, "TMPDIR": str(places["temporary"])}, "cwd": places["here"]}
        kit.python(_IMPORT, *kit.engine_modules, **where)  # some keep statistics about their users
        before = set(_content(tmp_path))
        kit.python(_CONVERT, ir.path, places["out"] / "artifact", 1, **where)
        new = kit.find_distributions() - kit.installed
        assert not new, f"{', '.join(sorted(new))}: installed by the backend"
        assert _content(ir.path.parent) == source, "the IR's folder was changed"
        assert [path.name for path in places["out"].iterdir()] == ["artifact"]
        # The artifact, and what core caches about the plugins that are installed.
        wanted = (str(places["out"]), str(places["home"] / "enginebay"))
        left = [path for path in _content(tmp_path).keys() - before if not path.startswith(wanted)]
        assert not left, f"{', '.join(sorted(left))}: written outside the work_dir"

    def test_no_process_is_left(self, kit: Kit, tmp_path: Path) -> None:
        """After converting and loading, no child process is left running."""
        _require_proc(kit)
        mark = uuid.uuid4().hex
        ir = kit.ir("fixed").path
        kit.python(_CONVERT, ir, tmp_path / "artifact", 1, env={_MARK: mark})
        ended = _wait_for(lambda: not _marked(mark), seconds=_PATIENCE)
        assert ended, f"left running: {', '.join(_kill(mark))}"

    def test_the_process_stays_as_it_was(self, kit: Kit, tmp_path: Path) -> None:
        """Converting, loading and running change no setting of the process, and no random state."""
        ir = kit.ir("fixed").path
        printed = kit.python(_SETTINGS, ir, tmp_path / "artifact", *kit.engine_modules)
        changed = printed.rpartition(_CHANGED)[2].strip()  # an engine may print, too
        assert not changed, f"{changed}: not as before"

    def test_a_fork_is_refused(self, kit: Kit) -> None:
        """In a forked process an inherited wrapper is refused, and closing it hangs nothing."""
        if not hasattr(os, "fork"):
            kit.skip("this system has no fork")
        printed = kit.python(_FORK, kit.artifact("fixed").path, _PATIENCE)
        assert "before the process was forked" in printed, "the inherited wrapper was not refused"

    def test_a_kill_leaves_nothing(self, kit: Kit, tmp_path: Path) -> None:
        """A conversion that is killed leaves no half artifact, no process, nothing in the way."""
        _require_proc(kit)
        ir, target = kit.ir("fixed").path, tmp_path / "artifact"
        for seconds in (0.0, 0.05, 0.5):  # after it has begun
            _kill_while_converting(kit, ir, target, seconds)
            if target.exists():
                eb.load(target).close()  # whole, or it would be refused
        eb.convert(ir, backend=kit.name, work_dir=target, overwrite=True)
        assert [path.name for path in tmp_path.iterdir()] == ["artifact"]


def settings_of_the_process() -> dict[str, object]:
    """Return what the whole process shares, and a backend has no business with."""
    import torch

    return {
        "the folder": Path.cwd(),
        "os.environ": dict(os.environ),
        "the umask": _umask(),
        "the garbage collector": gc.isenabled(),
        "the locale": locale.setlocale(locale.LC_ALL),
        "signal handlers": {one: signal.getsignal(one) for one in signal.valid_signals()},
        "the log level": logging.getLogger().level,
        "recursion": sys.getrecursionlimit(),
        "NumPy's errors": np.geterr(),
        "NumPy's random state": str(np.random.get_state()),
        "Python's random state": hash(random.getstate()),
        "torch's random state": torch.get_rng_state().numpy().tobytes(),
        "torch's dtype": torch.get_default_dtype(),
        "torch's gradients": torch.is_grad_enabled(),
        "torch's threads": torch.get_num_threads(),
    }


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _kill_while_converting(kit: Kit, ir: Path, target: Path, seconds: float) -> None:
    mark = uuid.uuid4().hex
    before = set(target.parent.iterdir())
    with kit.start(_CONVERT, ir, target, 1000, env={_MARK: mark}) as child:
        _wait_for(lambda: _staged(target.parent, before) or child.poll() is not None, seconds=120)
        time.sleep(seconds)
        child.kill()
        ended = _wait_for(lambda: not _marked(mark), seconds=_PATIENCE)
        left = "" if ended else ", ".join(_kill(mark))
        try:
            _, stderr = child.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            left, stderr = "a process without the environment of the killed one", ""
    assert not left, f"left running: {left}"
    assert child.returncode == -signal.SIGKILL, stderr


def _require_proc(kit: Kit) -> None:
    if not Path("/proc/self/environ").exists():
        kit.skip("this system has no /proc to look for processes in")


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _staged(folder: Path, before: set[Path]) -> bool:
    """Return True once the folder in which the artifact is built exists."""
    return any(path.is_dir() for path in folder.iterdir() if path not in before)


def _wait_for(condition: Callable[[], object], *, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _kill(mark: str) -> list[str]:
    """Kill the processes of one run and return them."""
    found = _marked(mark)
    for process in found:
        with suppress(ProcessLookupError):
            os.kill(int(process.partition(" ")[0]), signal.SIGKILL)
    return found


def _marked(mark: str) -> list[str]:
    """Return the running processes of one run, as ``pid command``."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            if f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_bytes().split(b"\0")
                found.append(f"{folder.name} {command[0].decode(errors='replace')}")
        except OSError:  # it has ended, or belongs to somebody else
            continue
    return found
