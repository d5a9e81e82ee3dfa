"""Each module alone, on the backend without an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from packages.lab.tests.diagnosis.models import BETWEEN, SLIPS, Block, Chance, Home, Whole
from torch import nn

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import UsageError
from enginebay_lab.diagnosis import piece_table
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.usefixtures("loopback"),
    pytest.mark.filterwarnings("ignore:.*choices occur in no sample:enginebay.VerdictWarning"),
]


class Hidden(nn.Module):
    """A live branch beside one whose activation changes nothing in the result."""

    def __init__(self, before: float, after: float, factor: float, last: nn.Module) -> None:
        super().__init__()
        self.live, self.first, self.second = (nn.Linear(4, 4) for _ in range(3))
        self.act, self.last, self.factor = nn.GELU(), last, factor
        nn.init.constant_(self.first.bias, before)
        nn.init.constant_(self.second.bias, after)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.act(torch.relu(self.first(x))))
        return self.live(x) + self.last(y) * self.factor


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make().eval()


def deployed(
    folder: Path, model: nn.Module, args: Any, *rewriters: eb.RewriterSet, **given: Any
) -> eb.Artifact:
    return eb.deploy(
        model,
        args,
        **{"backend": "loopback", **given},
        work_dir=folder / "net",
        export=eb.ExportOptions(exporter="torchscript", rewriters=rewriters),
        verify=eb.VerifyOptions(probes=1, allow_mismatch=True),
    ).artifact


def titles(found: lab.Pieces, verdict: str = "verified") -> set[str]:
    return {row.title for row in found.rows if row.verdict == verdict}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "make",
    [
        lambda: Hidden(0, 90, 1, nn.Sigmoid()),  # saturated
        lambda: Hidden(0, 0, 0, nn.Identity()),  # multiplied by 0
        lambda: Hidden(0, -90, 1, nn.ReLU()),  # before a dead activation
        lambda: Hidden(-90, 0, 1, nn.Identity()),  # after a dead activation
    ],
)
def test_a_wrong_module_is_found_even_if_no_output_changes(
    tmp_path: Path, make: Callable[[], nn.Module]
) -> None:
    model = seeded(make)
    artifact = deployed(tmp_path, model, torch.randn(2, 4), SLIPS)
    assert artifact.verdict == "verified"
    found = lab.pieces(artifact, model, rewriters=[SLIPS])
    assert (
        found.summary == f"{len(found.rows) - 1} of {len(found.rows)} pieces agree alone; 1 wrong"
    )
    assert not found.passed
    (row,) = found.unverified
    assert (row.module, row.type, row.verdict, row.reason) == ("act", "GELU", "mismatched", "")
    assert row.operators[-1] == "Mul"
    assert row.max_abs_error is not None
    assert row.rtol is not None
    assert row.max_abs_error > 10 * row.rtol


class Split(nn.Module):
    """Returns two views of one tensor, and an index for each row."""

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"halves": (x.narrow(-1, 0, 4), x.narrow(-1, 4, 4)), "best": x.argmax(-1)}


class InPlace(nn.Module):
    """Changes its input in place."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)


class Views(nn.Module):
    """Integers in, and pieces that share and overwrite tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 8)
        self.split, self.twice = Split(), InPlace()
        self.head = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        found = self.split(self.table(ids).masked_fill(~mask.bool()[..., None], -1e4))
        left, right = found["halves"]
        left = left + self.twice(right)
        return self.head(self.head(left)) + right + found["best"][..., None]


def views() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    return seeded(Views), (torch.tensor([[1, 5, 3, 8]]), torch.tensor([[1, 1, 1, 0]]))


#: A rewriter that exchanges the outputs of a module.
EXCHANGES = eb.RewriterSet()


@EXCHANGES.function("torch.Tensor.narrow")
def _narrow(ctx: Any, x: torch.Tensor, dim: int, start: int, length: int) -> Any:
    return ctx.origin_func(x, dim, 4 - start, length)


def test_pieces_with_several_outputs_integers_and_shared_views(tmp_path: Path) -> None:
    model, args = views()
    artifact = deployed(tmp_path, model, args)
    found = lab.pieces(artifact, model)
    modules = {"table", "split", "twice", "head.0", "head.1", "head.0 (call 2)", "head.1 (call 2)"}
    assert titles(found) == modules | {"(the model)"}
    assert found.summary == "8 of 8 pieces agree alone"
    assert found.passed
    assert all(row.is_redrawn for row in found.rows)
    wrong = lab.pieces(artifact, model, rewriters=[EXCHANGES])
    # The model uses the tensor that 'twice' changes in place, so nothing can be cut out of it.
    assert titles(wrong, "mismatched") == {"split", "(the model)"}


def test_the_rows_do_not_depend_on_the_number_of_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, args = views()
    artifact = deployed(tmp_path, model, args)
    monkeypatch.setattr(piece_table, "_PIECES_PER_ENGINE", 3)
    found = lab.pieces(artifact, model, rewriters=[EXCHANGES])
    assert titles(found, "mismatched") == {"split", "(the model)"}
    assert (len(found.rows), found.engines) == (8, 4)


def test_a_mask_whose_dtype_a_rewriter_changes_is_not_compared(tmp_path: Path) -> None:
    rewriters = eb.RewriterSet()

    @rewriters.function("torch.Tensor.bool")
    def _as_float(ctx: Any, x: torch.Tensor) -> Any:
        return x.to(torch.float32)

    model = seeded(lambda: nn.Sequential(AsMask(), Masked()))
    artifact = deployed(tmp_path, model, torch.ones(1, 3), rewriters)
    found = lab.pieces(artifact, model, rewriters=[rewriters])
    assert (titles(found), titles(found, "failed")) == ({"1"}, {"0"})
    assert found.unverified[0].reason == "its dtype differs: expected bool, found float32"
    assert found.passed


class AsMask(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.bool()


class Masked(nn.Module):
    def forward(self, mask: torch.Tensor) -> torch.Tensor:
        return mask * 2.5


def test_a_parametrised_module_is_cut(tmp_path: Path) -> None:
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), nn.Tanh())
    artifact = deployed(tmp_path, model.eval(), torch.ones(1, 3))
    found = lab.pieces(artifact, model)
    assert titles(found) >= {"0", "1"}
    assert found.passed


def test_a_module_that_does_not_run_alone_is_part_of_the_piece_around_it(tmp_path: Path) -> None:
    model = seeded(Home)
    artifact = deployed(tmp_path, model, torch.randn(1, 3))
    found = lab.pieces(artifact, model, rewriters=[BETWEEN])
    assert titles(found) == {"shy.first", "shy.second"}
    assert titles(found, "mismatched") == {"(the model)"}


def test_a_module_that_a_rewriter_replaces_is_not_cut(tmp_path: Path) -> None:
    rewriters = eb.RewriterSet()
    rewriters.module(f"{Block.__module__}.Block")(Whole)
    model = seeded(lambda: nn.Sequential(Block(nn.SiLU()), nn.Tanh()))
    artifact = deployed(tmp_path, model, torch.randn(1, 4, 5, 5), rewriters)
    found = lab.pieces(artifact, model, rewriters=[rewriters])
    assert (titles(found), titles(found, "mismatched")) == ({"1"}, {"0"})


def test_a_random_model_is_not_compared(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, Chance(), torch.ones(1, 3))
    found = lab.pieces(artifact, Chance())
    assert (found.summary, found.passed) == ("0 of 1 pieces agree alone; 1 not compared", False)
    assert found.rows[0].reason == "the model's outputs differ in each run"


#: The loopback backend, whose engine crashes at one operator.
BRITTLE = """
import os
import enginebay as eb
import onnx
from enginebay_testing import loopback
from enginebay_testing.loopback import check_env, to_backend, unsupported_operators
import msgspec

@eb.hookimpl
def backend_info():
    return msgspec.structs.replace(loopback.backend_info(), name="brittle")

@eb.hookimpl
def build_wrapper(request):
    graph = onnx.load(request.directory / request.files[0]).graph
    if any(node.op_type == "Tanh" for node in graph.node):
        os._exit(9)
    return loopback.build_wrapper(request)
"""


def test_a_crash_is_a_row(tmp_path: Path) -> None:
    rewriters = eb.RewriterSet()

    @rewriters.function("torch.nn.functional.silu")
    def _refused(ctx: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        raise ValueError("not this one")

    model = seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.SiLU(), nn.Linear(3, 3)))
    with temporary_backend("brittle", BRITTLE):
        artifact = deployed(tmp_path, model, torch.randn(1, 3), backend="brittle")
        found = lab.pieces(artifact, model, rewriters=[rewriters])
    crashed, failed = found.unverified
    assert (crashed.module, crashed.verdict) == ("1", "crashed")
    assert (failed.module, failed.verdict) == ("2", "failed")
    assert "exit code 9" in crashed.reason
    assert "not this one" in failed.reason
    assert titles(found) == {"0", "3"}
    assert found.summary == (
        "2 of 4 pieces agree alone; 1 with a crash of the engine, 1 not compared"
    )


def test_several_inputs_and_onnx_files_are_refused(tmp_path: Path) -> None:
    model, x = seeded(lambda: nn.Linear(3, 3)), torch.randn(1, 3)
    artifact = deployed(tmp_path, model, x)
    sets = [{"input": np.ones((1, 3), np.float32)}] * 2
    with pytest.raises(UsageError, match=r"^'pieces' accepts a single set of inputs, found 2"):
        lab.pieces(artifact, model, sets)
    file = eb.export(
        *(model, x),
        path=tmp_path / "net.onnx",
        options=eb.ExportOptions(exporter="torchscript"),
    ).path
    made = deployed(tmp_path / "file", file, {"input": x.numpy()})
    with pytest.raises(UsageError) as raised:
        lab.pieces(made)
    assert str(raised.value) == f"'{file}' is an ONNX file, which has no modules to compare"
    assert raised.value.hint == (
        "compare the file's nodes instead: enginebay bisect ARTIFACT without --pieces"
    )
