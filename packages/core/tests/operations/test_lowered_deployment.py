"""A backend that lists its operators: missing ones are lowered, refused or listed, all at once."""

from __future__ import annotations

import json

import pytest
import torch
from packages.core.tests.testing import small_engine
from torch import nn

import enginebay as eb
from enginebay.cli import main
from enginebay.errors import LackingOperatorsError
from enginebay_testing import temporary_backend

MODULE = small_engine.__name__

MODEL = """
import torch
from torch import nn

class Roots(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x) + torch.special.bessel_j0(-x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid(), Roots())
        self.head = Roots()

    def forward(self, x):
        return torch.special.i1(self.head(self.body(x)))

def build():
    return Net().eval(), torch.ones(2, 3)
"""


@pytest.fixture
def _small():
    with temporary_backend("small", MODULE):
        yield


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(MODEL)
    return f"{path}:build"


@pytest.mark.usefixtures("_small")
def test_operators_missing_in_a_backend_are_lowered_and_verified(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Hardswish(), nn.ReLU())
    deployment = eb.deploy(model, torch.rand(2, 3), work_dir=tmp_path / "a", backend="small")
    assert deployment.verdict == "verified"
    assert deployment.rewriting.fired == {"aten.sigmoid": 1, "aten.relu": 1}


REFUSAL = (
    "the engine does not support 2 operators: "
    "aten.special_bessel_j0 (4 times: module body.2, net.py:7; module head, net.py:7); "
    "aten.special_i1 (net.py:16)"
)


@pytest.mark.usefixtures("_small")
def test_operators_without_lowering_are_refused_with_modules_and_lines(tmp_path, model):
    with pytest.raises(LackingOperatorsError) as caught:
        eb.deploy(model, work_dir=tmp_path / "a", backend="small")
    assert str(caught.value) == REFUSAL
    assert caught.value.hint == (
        'declare @rewriters.lowering("aten.special_bessel_j0"), see docs/how-to/write-a-rewriter.md'
    )
    assert caught.value.operators == {
        "aten.special_bessel_j0": ("body.2", "head"),
        "aten.special_i1": (),
    }
    assert not (tmp_path / "a").exists()


@pytest.mark.usefixtures("_small")
def test_export_with_missing_operators_is_refused(tmp_path, model):
    with pytest.raises(LackingOperatorsError):
        eb.export(model, path=tmp_path / "a.pt2", backend="small")
    assert eb.export(model, path=tmp_path / "a.pt2").path.exists()


@pytest.mark.usefixtures("_small")
def test_rewriters_command_lists_lowerings_with_their_conditions(capsys):
    assert main(["rewriters", "--backend", "small", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rewriters"]
    assert {
        "kind": "lowering",
        "name": "aten.sigmoid",
        "condition": "backend small",
        "distribution": "temporary-small",
        "lost_to": None,
    } in rows
