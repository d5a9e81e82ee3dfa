"""A forked process behaves like a spawned process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fork_server import SOCKET, no_forks

if TYPE_CHECKING:
    from collections.abc import Callable

REPORT = """\
import json, os, sys
print(json.dumps({
    "argv": sys.argv, "folder": os.getcwd(), "key": os.environ.get("KEY"),
    "input": sys.stdin.read(), "group": os.getpgrp() == os.getpid(),
    "session": os.getsid(0) == os.getpid(), "forked": "numpy" in sys.modules,
}))
"""


def report(*words: str, **options: Any) -> dict[str, Any]:
    command = [sys.executable, "-c", REPORT, *words]
    options = {"input": "text", "capture_output": True, "text": True, "check": True, **options}
    return dict(json.loads(subprocess.run(command, **options).stdout))


def test_process_is_forked_unless_its_start_environment_differs() -> None:
    assert report()["forked"]
    assert not report(env={**os.environ, "OMP_NUM_THREADS": "7"})["forked"]
    assert not report(preexec_fn=lambda: None)["forked"]
    with no_forks():
        assert not report()["forked"]


@pytest.mark.process
def test_test_with_the_mark_process_spawns() -> None:
    assert not report()["forked"]


def test_forked_process_has_its_own_arguments_and_environment(tmp_path: Path) -> None:
    found = report("a", "b", cwd=tmp_path, env={**os.environ, "KEY": "value"}, process_group=0)
    assert found["argv"] == ["-c", "a", "b"]
    assert (found["folder"], found["key"]) == (str(tmp_path.resolve()), "value")
    assert (found["input"], found["group"]) == ("text", True)
    assert report(start_new_session=True)["session"]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("", 0),
        ("import sys; sys.exit(3)", 3),
        ("1 / 0", 1),
        ("import os; os._exit(4)", 4),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
    ],
)
def test_forked_process_exits_like_a_spawned_process(code: str, status: int) -> None:
    def run() -> tuple[int, list[str]]:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.splitlines()[-1:]

    forked = run()
    with no_forks():
        assert forked == run()
    assert forked[0] == status


def test_forked_process_can_be_waited_for_and_signalled() -> None:
    command = [sys.executable, "-c", "print(1, flush=True); import time; time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
        assert process.poll() is None
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM
        assert process.poll() == -signal.SIGTERM


@pytest.mark.parametrize("start", [lambda: report(cwd="/nowhere"), lambda: report("\0")])
def test_failed_start_raises_the_same_error_as_a_spawn(start: Callable[[], object]) -> None:
    with pytest.raises((OSError, ValueError)) as forked:
        start()
    with no_forks(), pytest.raises((OSError, ValueError)) as spawned:
        start()
    assert (forked.type, str(forked.value)) == (spawned.type, str(spawned.value))


def test_processes_with_the_same_folder_share_a_server() -> None:
    parent = [sys.executable, "-c", "import os; print(os.getppid())"]
    code = "import subprocess, sys\nfrom tests.fork_server import fork_server\n"
    code += "with fork_server(sys.argv[1]): subprocess.run(sys.argv[2:], check=True)"
    command = [sys.executable, "-c", code, str(Path(os.environ[SOCKET]).parent), *parent]
    ours = subprocess.run(parent, capture_output=True, check=True).stdout
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with no_forks():
        other = subprocess.run(command, env=env, capture_output=True, check=True).stdout
    assert int(other) == int(ours) != os.getpid()
