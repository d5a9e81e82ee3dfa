"""Paths on the command line whose bytes are not UTF-8."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

#: Python's text for a byte that is not UTF-8.
NAME = os.fsdecode(b"\xff")
SHOWN = "\\udcff"  # as a terminal shows it


@pytest.mark.parametrize(
    ("words", "path", "hint"),
    [
        (["tiny.onnx", "--work-dir", NAME], "{here}/", "choose another --work-dir"),
        ([f"{NAME}.onnx", "--work-dir", "out"], "", "rename it"),
        ([f"{NAME}.py:build", "--work-dir", "out"], "", "rename it"),
    ],
)
def test_a_path_that_no_engine_takes_is_one_line(
    cli: Run, here: Path, words: list[str], path: str, hint: str
) -> None:
    shutil.copy("tiny.onnx", f"{NAME}.onnx")
    shutil.copy("net.py", f"{NAME}.py")
    before = sorted(here.iterdir())
    ran = cli("deploy", "--backend", "loopback", *words)
    assert ran.code == 2
    name = words[0] if path == "" else NAME
    shown = path.format(here=here) + name.replace(NAME, SHOWN)
    assert ran.err.replace("\\\\udcff", SHOWN).splitlines()[-2:] == [
        f"error: the path '{shown}' is not UTF-8, and no engine takes another",
        f"hint: {hint}",
    ]
    assert sorted(here.iterdir()) == before


def test_an_artifact_in_a_folder_that_no_engine_takes(cli: Run, here: Path) -> None:
    assert cli("convert", "loopback", "tiny.onnx", "--work-dir", "out").code == 0
    (here / "out").rename(here / NAME)
    ran = cli("run", NAME)
    assert ran.code == 2
    assert ran.err == (
        f"error: the path '{here}/{SHOWN}' is not UTF-8, and no engine takes another\n"
        "hint: rename the folder\n"
    )
    assert cli("inspect", NAME, "--json").code == 0


def test_a_command_with_such_a_path_is_kept_escaped(
    cli: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / NAME).mkdir()
    monkeypatch.chdir(here / NAME)
    out = here / "out"
    assert cli("convert", "loopback", here / "tiny.onnx", "--work-dir", out).code == 0
    command = cli("inspect", out, "--json").document["manifest"]["command"]
    assert command.startswith(f"cd '{here}/{SHOWN}' && enginebay convert loopback ")
