"""Conformance tests of side effects: files outside the work folder, processes, settings."""

from __future__ import annotations

import gc
import locale
import logging
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import enginebay as eb
from enginebay_testing.conformance import child_process
from enginebay_testing.conformance.child_process import wait_for
from enginebay_testing.conformance.kit import expect

if TYPE_CHECKING:
    from enginebay_testing.conformance.kit import Kit

#: Program: convert an IR several times, then load the artifact.
_CONVERT = """\
import sys, enginebay as eb
_, name, ir, folder, times = sys.argv
for _ in range(int(times)):
    artifact = eb.convert(ir, backend=name, work_dir=folder, overwrite=True)
eb.load(artifact).close()
"""

#: Program: load the plugin and import the engine's modules, and nothing else.
_IMPORT = """\
import contextlib, sys, enginebay as eb
eb.get_backend(sys.argv[1])
for name in sys.argv[2:]:
    with contextlib.suppress(ImportError):
        __import__(name)
"""

#: Program: fork after a wrapper has run; the child calls it, closes it and drops it. It ends with
#: os._exit(), like multiprocessing's children: an engine's exit handlers may hang after a fork.
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

#: The prefix of the line that lists the changed settings.
_CHANGED = "changed settings: "

#: Program: import the engine's modules, which may change settings; then convert, load and run.
_SETTINGS = f"""\
import contextlib, sys, numpy as np, torch, enginebay as eb
from enginebay_testing.conformance.processes import settings_of_the_process
_, name, ir, folder, *modules = sys.argv
for module in modules:
    with contextlib.suppress(ImportError):
        __import__(module)
torch.set_num_threads(3)  # what a backend would hardly set
before = settings_of_the_process()
with eb.load(eb.convert(ir, backend=name, work_dir=folder)) as wrapper:
    wrapper({{each.name: np.zeros(each.dims, each.dtype) for each in wrapper.inputs}})
after = settings_of_the_process()
print("{_CHANGED}" + ", ".join(name for name in before if before[name] != after[name]))
"""


class ProcessLaws:
    """Conformance tests: a conversion writes the artifact and has no other side effects."""

    def test_nothing_is_written_outside_the_work_dir(self, kit: Kit, tmp_path: Path) -> None:
        """Converting and loading write nothing but the artifact.

        Files that the import of the engine or of the plugin writes do not count; installed packages
        do count.
        """
        ir = kit.ir("fixed")
        source = _read_files(ir.path.parent)
        folders = {name: tmp_path / name for name in ("here", "home", "temporary", "out")}
        for folder in folders.values():
            folder.mkdir()
        home = {name: str(folders["home"]) for name in ("HOME", "XDG_CACHE_HOME")}
        where = {"env": {**home, "TMPDIR": str(folders["temporary"])}, "cwd": folders["here"]}
        kit.python(_IMPORT, *kit.engine_modules, **where)  # some engines write usage statistics
        before = set(_read_files(tmp_path))
        kit.python(_CONVERT, ir.path, folders["out"] / "artifact", 1, **where)
        new = kit.find_distributions() - kit.installed
        assert not new, f"{', '.join(sorted(new))}: installed by the backend"
        assert _read_files(ir.path.parent) == source, "the IR's folder was changed"
        expect("written", [path.name for path in folders["out"].iterdir()], ["artifact"])
        # The artifact, and core's cache of plugin import trials.
        allowed = (str(folders["out"]), str(folders["home"] / "enginebay"))
        left = [
            path for path in _read_files(tmp_path).keys() - before if not path.startswith(allowed)
        ]
        assert not left, f"{', '.join(sorted(left))}: written outside the work_dir"

    def test_no_process_is_left(self, kit: Kit, tmp_path: Path) -> None:
        """After converting and loading, no child process is running."""
        _require_proc(kit)
        kit.python(_CONVERT, kit.ir("fixed").path, tmp_path / "artifact", 1)

    def test_the_process_stays_as_it_was(self, kit: Kit, tmp_path: Path) -> None:
        """Converting, loading and running change no settings and no random state of the process."""
        ir = kit.ir("fixed").path
        printed = kit.python(_SETTINGS, ir, tmp_path / "artifact", *kit.engine_modules)
        changed = printed.rpartition(_CHANGED)[2].strip()  # the engine may print lines too
        assert not changed, f"the backend changed {changed}"

    def test_a_fork_is_refused(self, kit: Kit) -> None:
        """In a forked process, an inherited wrapper raises an error; closing it does not hang."""
        if not hasattr(os, "fork"):
            kit.skip("this system has no fork")
        printed = kit.python(_FORK, kit.artifact("fixed").path, child_process.PATIENCE)
        assert "before the process was forked" in printed, "the inherited wrapper raised no error"

    def test_a_kill_leaves_nothing(self, kit: Kit, tmp_path: Path) -> None:
        """A killed conversion leaves no partial artifact and no process, and can be repeated."""
        _require_proc(kit)
        ir, target = kit.ir("fixed").path, tmp_path / "artifact"
        for seconds in (0.0, 0.05, 0.5):  # after the start of the conversion
            _kill_while_converting(kit, ir, target, seconds)
            if target.exists():
                eb.load(target).close()  # raises an error if the artifact is incomplete
        eb.convert(ir, backend=kit.name, work_dir=target, overwrite=True)
        expect("written", [path.name for path in tmp_path.iterdir()], ["artifact"])


def settings_of_the_process() -> dict[str, object]:
    """Return, by name, the settings of this process; a backend must not change them."""
    import torch

    return {
        "the folder": Path.cwd(),
        "os.environ": dict(os.environ),
        "the umask": _read_umask(),
        "the garbage collector": gc.isenabled(),
        "the locale": locale.setlocale(locale.LC_ALL),
        "signal handlers": {n: signal.getsignal(n) for n in signal.valid_signals()},
        "the log level": logging.getLogger().level,
        "recursion": sys.getrecursionlimit(),
        "NumPy's errors": np.geterr(),
        "NumPy's print options": np.get_printoptions(),
        "NumPy's random state": str(np.random.get_state()),
        "Python's random state": hash(random.getstate()),
        "torch's random state": torch.get_rng_state().numpy().tobytes(),
        "torch's dtype": torch.get_default_dtype(),
        "torch's gradients": torch.is_grad_enabled(),
        "torch's threads": torch.get_num_threads(),
    }


def _read_umask() -> int:
    # The umask can only be read by setting it.
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _kill_while_converting(kit: Kit, ir: Path, target: Path, seconds: float) -> None:
    before = set(target.parent.iterdir())
    # So many conversions that the child is still converting when it is killed.
    child = kit.start(_CONVERT, ir, target, 1000)
    # The folder of a partial artifact shows that the conversion has begun.
    wait_for(
        lambda: _is_staged(target.parent, before) or child.process.poll() is not None, seconds=120
    )
    time.sleep(seconds)
    child.process.kill()
    status = child.process.wait()
    # Descendants may need a moment to notice that their parent was killed.
    left = child.end_left()
    assert not left, f"expected no process of the killed one's, found {', '.join(left)} running"
    expect(f"exit status ({child.read()[1].strip()})", status, -signal.SIGKILL)


def _require_proc(kit: Kit) -> None:
    if not Path("/proc/self/environ").exists():
        kit.skip("this system has no /proc to look for processes in")


def _read_files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _is_staged(folder: Path, before: set[Path]) -> bool:
    return any(path.is_dir() for path in folder.iterdir() if path not in before)
