"""Conformance tests that every command of a plugin must pass."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from enginebay_testing.command_runs import environment, run_command
from enginebay_testing.conformance.kit import expect

#: Prints the modules that the help of a command imports.
_HELP = """
import json, runpy, sys
sys.argv.append("-h")
try:
    runpy.run_module("enginebay", run_name="__main__")
except SystemExit as end:
    print(json.dumps([end.code, [name for name in ("torch", "onnx") if name in sys.modules]]))
"""


class CommandConformance:
    """The conformance tests of a command, whose name the fixture ``command`` returns.

    ::

        from enginebay_testing import CommandConformance

        class TestLargestFiles(CommandConformance):
            @pytest.fixture
            def command(self):
                return "largest-files"
    """

    @pytest.fixture
    def command(self) -> str:
        """The command's name, which a subclass returns."""
        raise NotImplementedError("a subclass must return the command's name")

    def test_it_is_listed_with_a_summary(self, command: str) -> None:
        """``enginebay --help`` lists the command with a one-line summary."""
        status = _find_command(command)
        expect(f"the command's state ({status['reason']})", status["state"], "installed")
        text = run_command("-h").out
        assert re.search(rf"^  {re.escape(command)} +\S", text, re.MULTILINE), "it has no summary"

    def test_its_help_imports_no_library(self, command: str) -> None:
        """The help of the command imports neither torch nor onnx."""
        words = [sys.executable, "-c", _HELP, command]
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=120, env=environment()
        )
        expect(f"exit code of -h ({done.stderr.strip()})", done.returncode, 0)
        # The help itself is printed before it.
        code, imported = json.loads(done.stdout.splitlines()[-1])
        expect("exit code of -h", code, 0)
        expect("imported libraries", imported, [])
        start = f"usage: enginebay {command}"
        expect("beginning of the help", done.stdout[: len(start)], start)

    def test_its_examples_are_lines_of_its_own(self, command: str) -> None:
        """Each line of ``EXAMPLES`` begins with the command."""
        examples = getattr(import_module(_find_command(command)["module"]), "EXAMPLES", ())
        expect("type of EXAMPLES", type(examples), tuple)
        others = [line for line in examples if not line.startswith(f"enginebay {command}")]
        expect("examples of other commands", others, [])

    def test_an_unknown_flag_is_a_usage_error(self, command: str) -> None:
        """An unknown flag ends the command with exit code 2 and an error without a traceback."""
        ran = run_command(command, "--no-such-flag")
        expect("exit code", ran.code, 2)
        expect("output on stdout", ran.out, "")
        assert "Traceback" not in ran.err, f"expected no traceback, found {ran.err}"


def _find_command(name: str) -> dict[str, Any]:
    commands: list[dict[str, Any]] = run_command("backends", "--json").document["commands"]
    (status,) = [status for status in commands if status["name"] == name]
    return status
