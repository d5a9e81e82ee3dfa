"""One export of a model serves all backends whose rewriters have nothing to do in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.authors.files import draft_irs
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TWIN = """
from enginebay_testing.loopback import *
from enginebay_testing import loopback

to_backend, build_wrapper = loopback.to_backend, loopback.build_wrapper

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name="twin", irs=("onnx",), params=LoopbackParams)
"""


@pytest.fixture(scope="module")
def twin() -> Iterator[str]:
    with temporary_backend("twin", TWIN):
        yield "twin"


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.relu(self.body(x)))


def test_one_export_serves_backends_without_rewriters_for_the_model(
    loopback: str, twin: str, tmp_path: Path
) -> None:
    mine = eb.RewriterSet(backend=twin)
    mine.function("torch.tanh")(lambda ctx, x: ctx.origin_func(x))  # the model has none
    mine.lowering("aten.erf")(lambda ctx, x: ctx.origin_op(x))
    drafts = draft_irs(
        Layers(), torch.ones(1, 3), backends=[loopback, twin], rewriters=[mine], folder=tmp_path
    )
    first, second = drafts[loopback], drafts[twin]
    assert first.ir is not None
    assert second.ir is not None
    assert first.ir.path == second.ir.path


@pytest.mark.parametrize("kind", ["function", "module", "symbolic", "lowering"])
def test_a_backend_with_a_rewriter_for_the_model_gets_its_own_export(
    loopback: str, twin: str, tmp_path: Path, kind: str
) -> None:
    mine = eb.RewriterSet(backend=twin)
    if kind == "function":
        mine.function("torch.relu")(lambda ctx, x: x.clamp(min=0))
    elif kind == "lowering":
        mine.lowering("aten.relu")(lambda ctx, x: x.clamp(min=0))
    elif kind == "symbolic":
        mine.symbolic("relu", is_pytorch=True)(lambda ctx, g, x: g.op("Relu", x))
    else:
        mine.module("torch.nn.Linear")(Same)
    drafts = draft_irs(
        Layers(), torch.ones(1, 3), backends=[loopback, twin], rewriters=[mine], folder=tmp_path
    )
    first, second = drafts[loopback], drafts[twin]
    assert first.ir is not None
    assert second.ir is not None
    assert first.ir.path != second.ir.path
    assert (first.rewritten, len(second.rewritten)) == ({}, 1)


class Same(nn.Module):
    def __init__(self, ctx: object, module: nn.Module) -> None:
        super().__init__()
        self.inner = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)
