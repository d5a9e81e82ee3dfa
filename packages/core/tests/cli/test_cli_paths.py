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
    "words",
    [
        ["deploy", "--backend", "loopback", "tiny.onnx", "--work-dir", NAME],
        ["deploy", "--backend", "loopback", f"{NAME}.onnx", "--work-dir", "out"],
        ["deploy", "--backend", "loopback", f"{NAME}.py:build", "--work-dir", "out"],
        ["run", NAME],
        ["inspect", NAME, "--json"],
    ],
)
def test_a_path_that_is_not_utf8_is_one_error_line(cli: Run, here: Path, words: list[str]) -> None:
    shutil.copy("tiny.onnx", f"{NAME}.onnx")
    shutil.copy("net.py", f"{NAME}.py")
    before = sorted(here.iterdir())
    ran = cli(*words)
    assert ran.code == 2
    name = next(word for word in words if NAME in word).replace(NAME, SHOWN)
    found = ran.document["error"] if "--json" in words else {}
    text = ran.err or f"error: {found['message']}\nhint: {found['hint']}\n"
    assert text.endswith(
        f"error: '{name}' cannot be encoded in this locale (utf-8)\nhint: rename it\n"
    )
    assert sorted(here.iterdir()) == before


def test_a_path_that_is_not_utf8_is_escaped_in_the_manifest(
    cli: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / NAME).mkdir()
    monkeypatch.chdir(here / NAME)
    out = here / "out"
    assert cli("convert", "loopback", here / "tiny.onnx", "--work-dir", out).code == 0
    command = cli("inspect", out, "--json").document["manifest"]["command"]
    assert command.startswith(f"cd '{here}/{SHOWN}' && enginebay convert loopback ")
