"""Runs of the command ``enginebay`` in tests, in the same or in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest


class Ran(NamedTuple):
    """The result of a command.

    Attributes:
        code: The exit code.
        out: The output on stdout.
        err: The output on stderr.
    """

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document on stdout, whose ``schema`` must be 1."""
        document: dict[str, Any] = json.loads(self.out)  # fails if there is any other output
        assert document["schema"] == 1
        return document


def call_command(capfd: pytest.CaptureFixture[str], *words: object) -> Ran:
    """Run a command in this process: faster than a new process, since torch is already imported."""
    main = _console_script()
    # Discard earlier output of the test.
    capfd.readouterr()
    code = main([str(word) for word in words])
    return Ran(code, *capfd.readouterr())


@cache
def _console_script() -> Callable[[list[str]], int]:
    """Return the function that the installed script ``enginebay`` calls."""
    (script,) = entry_points(group="console_scripts", name="enginebay")
    main: Callable[[list[str]], int] = script.load()
    return main


def run_command(*words: object, env: Mapping[str, str] | None = None, **options: Any) -> Ran:
    """Run a command line in a separate process.

    Args:
        *words: The arguments after ``enginebay``.
        env: Variables to add to the environment of this process.
        **options: Options of ``subprocess.run``.
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
    """Return environment variables that let a child process import this process's modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}
