"""Run ``enginebay`` in a test: in the test's process, or in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest


class Ran(NamedTuple):
    """The result of a command.

    Attributes:
        code: Its exit code.
        out: What it printed on stdout.
        err: What it printed on stderr.
    """

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout, of ``"schema": 1``."""
        found: dict[str, Any] = json.loads(self.out)  # anything beside it would not parse
        assert found["schema"] == 1
        return found


def call_command(capfd: pytest.CaptureFixture[str], *words: object) -> Ran:
    """Run a command line in this process, which has torch in memory already."""
    from enginebay.cli import main

    capfd.readouterr()
    code = main([str(word) for word in words])
    return Ran(code, *capfd.readouterr())


def run_command(*words: object, env: Mapping[str, str] | None = None, **options: Any) -> Ran:
    """Run a command line in a process of its own.

    Args:
        *words: The arguments after ``enginebay``.
        env: Added to this process's environment.
        **options: As for ``subprocess.run``.
    """
    done = subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        check=False,
        **{"timeout": 120, "env": environment(**(env or {})), **options},
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def command(*words: object) -> list[str]:
    """Return a command line as an argument list for a process."""
    return [sys.executable, "-m", "enginebay", *map(str, words)]


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which a child process finds every module that this one finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}
