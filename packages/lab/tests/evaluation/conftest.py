"""A small classifier, its data, and two loopback artifacts: a right and a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import enginebay as eb
from enginebay_testing.command_runs import Ran, call_command

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[..., Ran]

NET = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x)


def build():
    torch.manual_seed(0)
    return Net().eval(), torch.zeros(1, 4)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, loopback: str) -> Path:
    """Make ``net.py``, 40 items, and the artifacts ``good`` and ``bad`` (negated outputs)."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "net.py").write_text(NET)
    namespace: dict[str, Any] = {}
    exec(NET, namespace)
    model, example = namespace["build"]()
    for name, gain in (("good", 1.0), ("bad", -1.0)):
        eb.deploy(
            *(model, example),
            backend=loopback,
            work_dir=folder / name,
            params={"gain": gain},
            export=eb.ExportOptions(exporter="torchscript"),
            verify=eb.VerifyOptions(allow_mismatch=True, probes=0),
        )
    x = np.random.default_rng(0).normal(size=(40, 1, 4)).astype(np.float32)
    with torch.no_grad():
        target = model(torch.from_numpy(x)).numpy().argmax(-1)[:, 0]
    target[:4] = (target[:4] + 1) % 3  # PyTorch is wrong on four of 40
    np.savez(folder / "data.npz", x=x, target=target)
    return folder


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the current folder, with links to these files."""
    for path in trained.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(here: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command line in this process."""
    return partial(call_command, capfd)
