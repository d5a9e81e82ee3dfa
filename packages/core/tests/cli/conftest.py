"""Fixtures that run the command line, in this process and in a separate one."""

from __future__ import annotations

import os
import pty
import select
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from enginebay.operations.checking import _TINY_ONNX
from enginebay_testing.command_runs import Ran, call_command, command, environment, run_command

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


Run = Callable[..., Ran]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, and loopback as the only backend."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "loopback")
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "tiny.onnx").write_bytes(_TINY_ONNX.read_bytes())
    return tmp_path


@pytest.fixture
def cli(here: Path, loopback: str, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process."""
    return partial(call_command, capfd)


@pytest.fixture
def shell(here: Path, loopback: str) -> Run:
    """Runs a command line in a separate process."""

    return partial(run_command, timeout=600)


def terminal(*words: str, redirect: Path | None = None, **env: str) -> tuple[int, str]:
    """Runs a command with a terminal on its stderr, and on its stdout unless redirected."""
    control, device = pty.openpty()
    with (redirect or Path(os.devnull)).open("wb") as file:
        process = subprocess.Popen(
            command(*words),
            stdin=device,
            stdout=file if redirect else device,
            stderr=device,
            env={**environment(TERM="xterm", COLUMNS="120"), **env},
        )
    os.close(device)
    seen = bytearray()
    while True:
        if select.select([control], [], [])[0]:
            try:
                data = os.read(control, 1 << 16)
            except OSError:  # Linux: the other end is closed
                data = b""
            if not data:
                break
            seen += data
    os.close(control)
    return process.wait(), seen.decode()
