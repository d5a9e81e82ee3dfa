"""The command line, in this process and in one of its own."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from enginebay.backend.checking import _TINY_ONNX
from enginebay.cli import main

if TYPE_CHECKING:
    from pathlib import Path

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x).relu()


def build():
    torch.manual_seed(0)
    return Net(), torch.randn(2, 4)


def chatty():
    print("the model talks")
    return build()
"""


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.out)  # one document: anything beside it would not parse
        assert found["schema"] == 1
        return found


Run = Callable[..., Ran]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, and loopback as the only backend."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "loopback")
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "tiny.onnx").write_bytes(base64.b64decode(_TINY_ONNX))
    return tmp_path


@pytest.fixture
def cli(here: Path, loopback: str, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process."""

    def run(*words: object) -> Ran:
        capfd.readouterr()
        code = main([str(word) for word in words])
        return Ran(code, *capfd.readouterr())

    return run


def command(*words: object) -> list[str]:
    """The same as an argument list for a process."""
    return [sys.executable, "-m", "enginebay", *map(str, words)]


def environment(**more: str) -> dict[str, str]:
    """This process's, where its children find what it can import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}


@pytest.fixture
def shell(here: Path, loopback: str) -> Run:
    """Runs a command line in a process of its own."""

    def run(*words: object, **options: Any) -> Ran:
        done = subprocess.run(
            command(*words),
            capture_output=True,
            text=True,
            check=False,
            env=environment(**options.pop("env", {})),
            timeout=100,
            **options,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
