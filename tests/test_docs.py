"""The pages with blocks that claim to run: they do, in the order of the page."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"```(\w+)([^\n]*)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", ["configs.md"])
def test_a_page_runs(page: str, tmp_path: Path) -> None:
    for language, info, code in BLOCK.findall((DOCS / page).read_text()):
        options = dict(word.split("=") for word in info.split())
        if "file" in options:
            (tmp_path / options["file"]).write_text(code)
        elif language == "python":
            done = run([sys.executable, "-c", code], tmp_path)
            assert done.returncode == 0, done.stderr
        elif language == "sh":
            for line in code.splitlines():
                done = run([sys.executable, "-m", *shlex.split(line)], tmp_path)
                assert done.returncode == int(options.get("exit", 0)), (line, done.stderr)


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
