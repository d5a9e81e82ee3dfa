"""The command line, in this process and in its own process, and backends for tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from enginebay_testing.command_runs import Ran, call_command, run_command

if TYPE_CHECKING:
    from pathlib import Path

MODELS = """\
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


class Raising(nn.Module):
    def forward(self, x):
        raise ValueError("no weights in here\\nand no second line")


def raising():
    return Raising(), torch.ones(1)


class Nan(nn.Module):
    def forward(self, x):
        return torch.log(x)


def nan():
    return Nan(), torch.tensor([[-1.0, 1.0]])
"""


Run = Callable[..., Ran]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which contains only a file of models."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODELS)
    return tmp_path


@pytest.fixture
def cli(here: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process, in which torch is already imported."""
    return partial(call_command, capfd)


@pytest.fixture
def shell(here: Path) -> Run:
    """Runs a command line in a process of its own."""
    return partial(run_command, timeout=600)


#: A backend of ONNX Runtime whose outputs pass through ``change``.
DERIVED = """\
import os, signal, threading
import numpy as np
import enginebay as eb
from enginebay_onnxruntime import plugin

IRS = ("onnx",)
to_backend = plugin.to_backend

def change(outputs):
    return outputs

class Wrapper(eb.Wrapper):
    def __init__(self, inner):
        super().__init__(inputs=inner.inputs, outputs=inner.outputs)
        self.inner = inner
    @property
    def receipt(self):
        return self.inner.receipt
    def execute(self, feed):
        return change(list(self.inner.execute(feed)))

@eb.hookimpl
def build_wrapper(request):
    return Wrapper(plugin.build_wrapper(request))

{source}

@eb.hookimpl
def backend_info():
    inner = plugin.backend_info()
    return eb.BackendInfo(name="{name}", irs=IRS, params=inner.params, dtypes=inner.dtypes)
"""


def derived(name: str, source: str) -> Any:
    """Return a context in which the backend ``name`` is installed."""
    from enginebay_testing import temporary_backend

    return temporary_backend(name, DERIVED.format(name=name, source=source))


@pytest.fixture
def snapshot() -> Callable[[Path], dict[str, bytes]]:
    """Reads every file under a folder, to check that no file changed."""

    def take(folder: Path) -> dict[str, bytes]:
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }

    return take
