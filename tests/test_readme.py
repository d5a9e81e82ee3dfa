"""The README is true: its blocks run, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"```(\w+)([^\n]*)\n(.*?)```", re.DOTALL)
#: These are what this very run does (nox), or install what is under test into it (pip).
ELSEWHERE = ("pip install",)


def blocks() -> list[tuple[str, str, str]]:
    return [(lang, info.strip(), code) for lang, info, code in BLOCK.findall(README.read_text())]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the README tells its reader to have."""
    path = tmp_path_factory.mktemp("readme")
    for _, info, code in blocks():
        if info.startswith("file="):
            (path / info.removeprefix("file=")).write_text(code)
    return path


def shell_lines() -> list[str]:
    lines = [line for lang, _, code in blocks() if lang == "sh" for line in code.splitlines()]
    return [line for line in lines if not line.startswith(ELSEWHERE)]


@pytest.mark.parametrize("line", shell_lines())
def test_commands_run(folder: Path, line: str) -> None:
    run = subprocess.run(
        shlex.split(line, comments=True), cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_python_runs(folder: Path) -> None:
    code = [code for lang, info, code in blocks() if lang == "python" and not info]
    assert code
    for text in code:
        run = subprocess.run(
            [sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        assert run.stdout.startswith("verified")


def test_the_first_command_runs_the_example(tmp_path: Path) -> None:
    (command,) = [
        line for _, _, code in blocks() for line in code.splitlines() if "digits.py" in line
    ]
    install, run = command.split(" && ")
    assert "packages/core[export]" in install
    run = run.replace("python examples", f"{sys.executable} {ROOT}/examples")
    done = subprocess.run(
        shlex.split(run), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    figures = [float(number) for number in re.findall(r"accuracy, .*?([\d.]+)$", done.stdout, re.M)]
    assert len(figures) == 2
    assert figures[0] == figures[1] > 0.9
    assert "verdict              verified" in done.stdout


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
