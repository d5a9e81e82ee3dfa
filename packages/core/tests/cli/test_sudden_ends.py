"""Foreign code that ends the process without an exception: the command fails with a reason."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_testing.command_runs import Ran

    from .conftest import Run

pytestmark = pytest.mark.process

SOURCE = """
import os, signal, threading
import enginebay as eb

def leave():
    os._exit({code})

@eb.hookimpl
def model_sources():
    {body}
    return {{}}
"""
DEPLOY = ("deploy", "zoo:net", "--backend", "loopback", "--work-dir", "out", "--json")


@pytest.fixture
def deploy(shell: Run) -> Iterator[Run]:
    def deploy(body: str, code: int = 0) -> Ran:
        source = SOURCE.format(body=body, code=code)
        with temporary_backend("abrupt", source, group="enginebay.plugins"):
            return shell(*DEPLOY)

    return deploy


@pytest.mark.parametrize(("code", "ended"), [(0, 1), (7, 7)])
def test_os_exit_is_a_failure_with_the_callers_name(deploy: Run, code: int, ended: int) -> None:
    ran = deploy("leave()", code)
    assert ran.code == ended
    message = ran.document["error"]["message"]
    where = r"model_sources \(.*/temporary_abrupt_\d+\.py:10\)"
    assert re.fullmatch(rf"{where} ended the command by os\._exit\({code}\)", message)
    assert ran.err == f"error: {message}\n"


def test_os_exit_in_a_thread_is_a_failure(deploy: Run) -> None:
    ran = deploy("thread = threading.Thread(target=leave); thread.start(); thread.join()")
    assert ran.code == 1
    assert ran.err.endswith(") ended the command by os._exit(0)\n")
    assert ran.document["error"]["message"].startswith("leave (")


def test_os_exit_in_a_forked_child_does_not_fail_the_command(deploy: Run) -> None:
    ran = deploy("os.fork() and os.wait() or leave()")
    assert ran.code == 2
    assert ran.document["error"]["message"] == "no module 'zoo'"
    assert "os._exit" not in ran.err


def test_a_native_crash_prints_the_stack(deploy: Run) -> None:
    ran = deploy("os.kill(os.getpid(), signal.SIGSEGV)")
    assert (ran.code, ran.out) == (-signal.SIGSEGV, "")
    assert ran.err.startswith("Fatal Python error: Segmentation fault")
    assert re.search(
        r'/temporary_abrupt_\d+\.py", line 10 in model_sources$', ran.err, re.MULTILINE
    )


def test_stderr_without_a_descriptor_works() -> None:
    code = "import io, sys; from enginebay.cli import main; sys.stderr = io.StringIO(); "
    code += "sys.exit(main(['nonsense']))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 2
