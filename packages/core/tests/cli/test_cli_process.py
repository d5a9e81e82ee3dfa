"""Tests that need a separate process: signals, pipes, full disks, terminals."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import enginebay as eb
from enginebay_testing.command_runs import command, environment

from .conftest import terminal

if TYPE_CHECKING:
    from .conftest import Run

#: Says that it is about to run, then waits to be ended.
WAITING = """\
import sys, threading
from torch import nn, ones
def build():
    print("waiting", file=sys.stderr, flush=True)
    threading.Event().wait()
class Slow(nn.Module):
    def forward(self, x):
        build()
def slow():
    return Slow(), ones(1)
"""


def ended_by(number: signal.Signals, here: Path, model: str, *more: str) -> subprocess.Popen[str]:
    """Send a signal to a running deployment, and return its result."""
    (here / "waits.py").write_text(WAITING)
    process = subprocess.Popen(
        command("deploy", f"waits.py:{model}", "--backend", "loopback", "--work-dir", "out", *more),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "waiting\n"
    process.send_signal(number)
    return process


@pytest.mark.parametrize("model", ["build", "slow"])
@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated by SIGTERM"),
        (signal.SIGHUP, 129, "terminated by SIGHUP"),
    ],
)
def test_a_signal_unwinds_and_leaves_nothing_behind(
    here: Path, loopback: str, number: signal.Signals, code: int, message: str, model: str
) -> None:
    process = ended_by(number, here, model)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (code, "", f"error: {message}\n")
    left = {path.name for path in here.iterdir()} - {"__pycache__"}
    assert left == {"net.py", "tiny.onnx", "waits.py"}


#: Sends a signal to itself at a given moment, and continues, like torch's lazy imports.
SWALLOWING = """\
import os, signal, torch
from torch import nn, ones
class Deaf(nn.Module):
    def forward(self, x):
        if {when}:
            try:
                os.kill(os.getpid(), signal.{name})
            except BaseException:
                pass
        return x + 1
def build():
    return Deaf(), ones(1)
"""


@pytest.mark.parametrize(
    ("when", "name", "code", "message"),
    [
        ("not torch.compiler.is_exporting()", "SIGINT", 130, "interrupted"),
        ("torch.compiler.is_exporting()", "SIGTERM", 143, "terminated by SIGTERM"),
    ],
)
def test_a_swallowed_signal_still_ends_the_command(
    here: Path, cli: Run, when: str, name: str, code: int, message: str
) -> None:
    (here / "deaf.py").write_text(SWALLOWING.format(when=when, name=name))
    ran = cli("deploy", "deaf.py:build", "--backend", "loopback", "--work-dir", "out")
    assert (ran.code, ran.out, ran.err) == (code, "", f"error: {message}\n")
    assert {path.name for path in here.iterdir()} - {"__pycache__"} == {
        *("deaf.py", "net.py", "tiny.onnx"),
    }
    # The process is not interrupted any more after the command.
    assert eb.deploy("net.py:build", backend="loopback", work_dir="next").verdict == "verified"


@pytest.mark.process
def test_a_signal_waits_for_the_import_of_torch(here: Path) -> None:
    """During this import C++ calls Python, and an exception would end the process."""
    (here / "torch").mkdir()
    (here / "torch" / "__init__.py").write_text(
        "import os, signal, time\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "time.sleep(0.3)\n"
        "print('imported', flush=True)\n"
    )
    code = (
        "import sys, time; sys.path.insert(0, '.')\n"
        "from enginebay.cli.exit_codes import exit_code\n"
        "def command(arguments):\n"
        "    import torch\n"
        "    time.sleep(600)\n"
        "    return 0\n"
        "sys.exit(exit_code([], command))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=here, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "imported\n", "error: interrupted\n")


def test_a_swallowed_signal_preserves_the_old_artifact(here: Path, cli: Run) -> None:
    from enginebay_testing import temporary_backend

    deaf = (
        "import os, signal\n"
        "from enginebay_testing.loopback import *\n"
        "from enginebay_testing import loopback\n"
        "to_backend, build_wrapper = loopback.to_backend, loopback.build_wrapper\n"
        "@eb.hookimpl\n"
        "def bound_to(request):\n"  # the last hook before the artifact is published
        "    try: os.kill(os.getpid(), signal.SIGTERM)\n"
        "    except BaseException: pass\n"
        "    return {}\n"
        "@eb.hookimpl\n"
        "def backend_info():\n"
        "    return eb.BackendInfo(name='deaf', irs=('onnx',), params=LoopbackParams)\n"
    )
    assert cli("deploy", "tiny.onnx", "--backend", "loopback", "--work-dir", "out").code == 0
    before = cli("inspect", "out").out
    with pytest.MonkeyPatch.context() as patch, temporary_backend("deaf", deaf):
        patch.setenv("ENGINEBAY_BACKENDS", "loopback,deaf")
        for words in (
            ("deploy", "tiny.onnx", "--backend", "deaf"),
            ("convert", "deaf", "tiny.onnx"),
        ):
            ran = cli(*words, "--work-dir", "out", "--overwrite")
            assert (ran.code, ran.err) == (143, "error: terminated by SIGTERM\n")
    assert cli("inspect", "out").out == before
    assert {path.name for path in here.iterdir()} == {"net.py", "out", "tiny.onnx"}


def test_os_exit_in_a_plugin_is_a_failure(here: Path, cli: Run) -> None:
    from enginebay_testing import temporary_backend

    leaving = (
        "from enginebay_testing.loopback import *\n"
        "from enginebay_testing import loopback\n"
        "to_backend = loopback.to_backend\n"
        "class Leaving(LoopbackWrapper):\n"
        "    def release(self):\n"
        "        if __import__('os').environ.get('LEAVE'): raise SystemExit(0)\n"
        "@eb.hookimpl\n"
        "def build_wrapper(request): return Leaving(request)\n"
        "@eb.hookimpl\n"
        "def backend_info():\n"
        "    return eb.BackendInfo(name='leaving', irs=('onnx',), params=LoopbackParams)\n"
    )
    with pytest.MonkeyPatch.context() as patch, temporary_backend("leaving", leaving):
        patch.setenv("ENGINEBAY_BACKENDS", "leaving")
        assert cli("convert", "leaving", "tiny.onnx", "--work-dir", "out").code == 0
        patch.setenv("LEAVE", "1")
        ran = cli("run", "out")
    assert ran.code == 1
    assert ran.err.startswith("error: unexpected SystemExit: 0\nhint: run the command again with ")


def test_an_interruption_as_json(here: Path, loopback: str) -> None:
    process = ended_by(signal.SIGINT, here, "slow", "--json")
    out, _ = process.communicate()
    assert process.returncode == 130
    assert '"message": "interrupted"' in out


@pytest.mark.parametrize(
    ("ignoring", "name"),
    [(["nohup"], "SIGHUP"), (["sh", "-c", "trap '' INT; exec \"$@\"", "sh"], "SIGINT")],
)
def test_a_signal_that_was_ignored_stays_ignored(
    here: Path, loopback: str, ignoring: list[str], name: str
) -> None:
    """nohup ignores SIGHUP, and shells ignore SIGINT for background jobs."""
    (here / "model.py").write_text(
        f"import os, signal\nos.kill(os.getpid(), signal.{name})\n"
        "raise SystemExit('went on')\nx = 1\n"
    )
    done = subprocess.run(
        [*ignoring, *command("deploy", "model.py:x", "--backend", "loopback")],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "importing 'model.py' raised SystemExit: went on" in done.stderr


def test_child_processes_end_with_the_command(here: Path, loopback: str) -> None:
    from enginebay_testing import temporary_backend

    hanging = (
        "import os, threading\n"
        "from pathlib import Path\n"
        "from enginebay_testing.loopback import *\n"
        "from enginebay_testing import loopback\n"
        "to_backend = loopback.to_backend\n"
        "@eb.hookimpl\n"
        "def build_wrapper(request):\n"
        "    Path('child').write_text(str(os.getpid()))\n"
        "    threading.Event().wait()\n"
        "@eb.hookimpl\n"
        "def backend_info():\n"
        "    return eb.BackendInfo(name='hanging', irs=('onnx',), params=LoopbackParams)\n"
    )
    with temporary_backend("hanging", hanging):
        process = subprocess.Popen(
            command("deploy", "tiny.onnx", "--backend", "hanging", "--work-dir", "out"),
            env=environment(ENGINEBAY_BACKENDS="hanging"),
            stderr=subprocess.PIPE,
            text=True,
        )
        child = here / "child"
        _wait_for(lambda: child.exists() and child.read_text())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (130, "error: interrupted\n")
    _wait_for(lambda: not Path(f"/proc/{child.read_text()}").exists())
    assert not [path for path in here.iterdir() if "out" in path.name]


def _wait_for(condition: object) -> None:
    while not condition():  # type: ignore[operator]  # a function of no argument
        time.sleep(0.05)


@pytest.mark.parametrize("words", ["backends", "deploy -h", "-h", "backends --json"])
def test_a_closed_pipe_prints_no_error(
    here: Path, loopback: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENGINEBAY_BACKENDS")  # otherwise a message would list the excluded backends
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        command(*words.split()),
        stdout=write,
        stderr=subprocess.PIPE,
        env=environment(),
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.slow
@pytest.mark.parametrize("words", ["-h", "check-env loopback"])
def test_a_closed_stdout_is_not_an_error(here: Path, loopback: str, words: str) -> None:
    line = shlex.join(command(*words.split()))
    done = subprocess.run(
        ["/bin/sh", "-c", f"{line} >&-"],
        stderr=subprocess.PIPE,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_deploy_works_with_closed_streams(here: Path, shell: Run, closed: str) -> None:
    line = shlex.join(command("deploy", "tiny.onnx", "--backend", "loopback", "--work-dir", "out"))
    done = subprocess.run(["/bin/sh", "-c", f"{line} {closed}"], env=environment(), check=False)
    assert done.returncode == 0
    assert shell("inspect", "out").code == 0


@pytest.mark.parametrize("words", ["deploy nét.py:build --work-dir out", "inspect ö"])
def test_a_name_outside_the_locale_is_refused_at_once(shell: Run, words: str) -> None:
    ascii_alone = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    ran = shell(*words.split(), env=ascii_alone)
    name = words.split()[1].replace("é", r"\udcc3\udca9").replace("ö", r"\udcc3\udcb6")
    wanted = f"error: '{name}' cannot be encoded in this locale (ascii)\nhint: set LC_ALL=C.UTF-8\n"
    assert (ran.code, ran.out, ran.err) == (2, "", wanted)


def test_a_current_folder_outside_the_locale_is_refused(shell: Run, here: Path) -> None:
    ascii_alone = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    folder = here / "è"
    folder.mkdir()
    words = ("deploy", "../tiny.onnx", "--backend", "loopback", "--work-dir", "out")
    ran = shell(*words, env=ascii_alone, cwd=folder)
    assert ran.code == 2
    assert r"\udcc3\udca8/out' cannot be encoded in this locale (ascii)" in ran.err
    assert shell(*words, cwd=folder).code == 0
    ran = shell("run", "out", env=ascii_alone, cwd=folder)
    assert ran.code == 2
    assert r"\udcc3\udca8/out' cannot be encoded in this locale (ascii)" in ran.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "words", ["backends", "deploy -h", "deploy tiny.onnx --backend loopback --work-dir out"]
)
def test_a_full_disk_of_stdout_is_one_error_line(here: Path, loopback: str, words: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command(*words.split()),
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(PYTHONUNBUFFERED="1"),
            check=False,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "error: stdout cannot be written: No space left on device; the command itself succeeded"
    )
    assert (here / "out").exists() == ("out" in words.split())


MODEL = ("deploy", "tiny.onnx", "--backend", "loopback")


def test_progress_disappears_before_the_closing_table(here: Path, loopback: str) -> None:
    code, seen = terminal(*MODEL)
    assert code == 0
    progress, header, closing = re.split(r"(STEP.*SECONDS)", seen)
    assert header
    for step in ("reference", "export", "convert", "verify", "publish"):
        assert re.search(rf"{step} +\d+\.\d s", progress), step
    assert "✓" in progress
    assert "\x1b[2K" in progress, "the lines are taken back"
    assert "\x1b[32mverified\x1b[0m against" in closing
    assert "Next:\r\n  enginebay run tiny-loopback" in closing


def test_progress_remains_if_stdout_is_redirected(here: Path, loopback: str) -> None:
    code, seen = terminal(*MODEL, redirect=here / "log")
    assert code == 0
    last = _last_screen(seen)
    assert [line.split()[1] for line in last] == [
        *("reference", "export", "convert", "verify", "publish"),
    ]
    assert all(re.match(r"✓ \w+ +\d+\.\d s  \S", line) for line in last), last
    assert "\x1b" not in (here / "log").read_text()


def test_a_step_takes_one_line_however_narrow_the_terminal(here: Path, loopback: str) -> None:
    code, seen = terminal(*MODEL, redirect=here / "log", COLUMNS="40")
    assert code == 0
    last = _last_screen(seen)
    assert len(last) == 5, last
    assert all(re.match(r"✓ \w+ +\d+\.\d s  \S", line) for line in last), last
    assert last[-1].endswith("…")


def test_progress_shows_the_step_that_failed(here: Path, loopback: str) -> None:
    (here / "bad.py").write_text(
        "from torch import nn, ones\n"
        "class Bad(nn.Module):\n"
        "    def forward(self, x): raise ValueError('no')\n"
        "def build(): return Bad(), ones(1)\n"
    )
    code, seen = terminal("deploy", "bad.py:build", "--backend", "loopback")
    assert code == 1
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert re.search(r"✗ reference +\d+\.\d s", plain)
    assert "\x1b[31merror:\x1b[0m " in seen


def test_no_color_removes_colours_but_not_words(here: Path, loopback: str) -> None:
    code, seen = terminal(*MODEL, NO_COLOR="1")
    assert code == 0
    assert not re.findall(r"\x1b\[[0-9;]*[1-9][0-9;]*m", seen)
    assert re.search("verdict +verified against", seen)
    code, seen = terminal("backends")
    assert "\x1b[1mNAME" in seen
    code, seen = terminal("backends", NO_COLOR="1")
    assert "\x1b" not in seen


def test_progress_is_not_drawn_without_a_terminal(shell: Run) -> None:
    ran = shell(*MODEL)
    assert (ran.code, ran.err) == (0, "")
    assert "\x1b" not in ran.out


def _last_screen(seen: str) -> list[str]:
    """Return the last drawn lines of the progress that were not erased."""
    frame = re.split(r"\x1b\[2K", seen)[-1]
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame)
    return [line for line in plain.replace("\r", "").split("\n") if line.strip()]


def test_a_models_prints_from_cpp_go_to_stderr(shell: Run, here: Path) -> None:
    (here / "loud.py").write_text(
        "import os\nos.write(1, b'from far below\\n')\nfrom net import build\n"
    )
    ran = shell("deploy", "loud.py:build", *MODEL[2:], "--exporter", "torchscript", "--json")
    assert ran.document["verdict"] == "verified"
    assert "from far below\n" in ran.err


def test_an_engines_prints_go_to_stderr(shell: Run) -> None:
    """The prints are from Python, to the descriptor, and through C's buffer."""
    from enginebay_testing import temporary_backend

    loud = (
        "import ctypes, os\n"
        "from enginebay_testing.loopback import *\n"
        "from enginebay_testing import loopback\n"
        "def talk():\n"
        "    print('from Python')\n"
        "    os.write(1, b'from below\\n')\n"
        "    ctypes.CDLL(None).puts(b'from C')\n"
        "class Loud(LoopbackWrapper):\n"
        "    def execute(self, feed): return talk() or super().execute(feed)\n"
        "@eb.hookimpl\n"
        "def to_backend(request): return talk() or loopback.to_backend(request)\n"
        "@eb.hookimpl\n"
        "def build_wrapper(request): return talk() or Loud(request)\n"
        "@eb.hookimpl\n"
        "def backend_info():\n"
        "    return eb.BackendInfo(name='loud', irs=('onnx',), params=LoopbackParams)\n"
    )
    with pytest.MonkeyPatch.context() as patch, temporary_backend("loud", loud):
        patch.setenv("ENGINEBAY_BACKENDS", "loud")
        for words in (("deploy", "tiny.onnx", "--work-dir", "out"), ("run", "out")):
            ran = shell(*words, "--json")
            assert ran.document["schema"] == 1
            assert {"from Python", "from below", "from C"} <= set(ran.err.splitlines())


def test_python_m_enginebay_is_the_same_command(shell: Run) -> None:
    assert shell("nope").err.startswith("error: 'nope' is not a command; available: ")
    assert shell().code == 2
    assert sys.executable


@pytest.mark.process
@pytest.mark.parametrize(
    "code",
    [
        "from enginebay.cli import main; main(['backends'])",
        "from enginebay.isolation.child import _prepare_process; _prepare_process()",
    ],
)
def test_the_end_of_a_process_leaves_its_objects_to_the_system(code: str) -> None:
    # Handlers run in the reverse order, so that this one sees what the command's has done.
    shown = "import atexit, gc; atexit.register(lambda: print('frozen', gc.get_freeze_count() > 0))"
    ran = subprocess.run(
        (sys.executable, "-c", f"{shown}; {code}"),
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert ran.stdout.splitlines()[-1] == "frozen True"
