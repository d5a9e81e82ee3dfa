"""Pieces: submodels that each run one call of a module, and models of several pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from packages.lab.tests.diagnosis.planted_faults import target_of
from torch import nn

from enginebay_lab.diagnosis.module_calls import record_calls
from enginebay_lab.diagnosis.pieces import (
    InnerCall,
    InnerCalls,
    Piece,
    SideBySide,
    StandIn,
    parent_paths,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class Caller(nn.Module):
    """Calls a layer twice, and reads an attribute of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.act = nn.Sequential(nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x) + self.layer.out_features
        return self.act(self.layer(y)) * 2 + self.layer.weight.sum()


def cut(model: nn.Module, path: str, inner: Sequence[str], *args: Any) -> Piece:
    """Return the first call of the module at ``path`` without the calls of ``inner``."""
    target = target_of(model, *args)
    keys = list(record_calls(model, target.call, target.tensors))
    calls = record_calls(model, target.call, target.tensors, keys)
    made = [
        InnerCall(call.module, call.result, call.returned)
        for key, call in calls.items()
        if key[0] in inner and call.result is not None
    ]
    replayed = InnerCalls(made)
    call = calls[path, 0]
    assert call.call is not None
    module = replayed.strip_module(call.module)
    return Piece(path, 0, module, call.call, call.tensors, inner=replayed)


@pytest.fixture
def piece() -> Piece:
    """The code of a model without its layers."""
    torch.manual_seed(0)
    return cut(Caller().eval(), "", ["layer", "act"], torch.ones(1, 3))


def test_a_piece_gets_the_results_of_inner_calls_as_inputs(piece: Piece) -> None:
    assert len(piece.tensors) == 1 + 2 + 1  # the input, twice the layer, the activation
    with torch.no_grad():
        *passed, result = piece.run(piece.tensors)
        model = Caller()
        model.load_state_dict({**piece.module.state_dict()}, strict=False)
    assert len(passed) == 3  # the arguments of the three calls
    expected = piece.tensors[3] * 2 + piece.module.layer.weight.sum()
    torch.testing.assert_close(result.value, expected)
    # Other inputs are other results of the inner calls.
    others = [tensor + 1 for tensor in piece.tensors]
    with torch.no_grad():
        torch.testing.assert_close(piece.run(others)[-1].value, expected + 2)


def test_the_arguments_of_inner_calls_are_results_of_the_piece(piece: Piece) -> None:
    x, first, second, _ = piece.tensors
    with torch.no_grad():
        passed = [computed.value for computed in piece.run(piece.tensors)[:3]]
    assert torch.equal(passed[0], x)
    assert torch.equal(passed[1], first + 3)  # Linear.out_features
    assert torch.equal(passed[2], second)


def test_a_stripped_module_shares_its_weights_and_leaves_the_original_alone() -> None:
    model = Caller().eval()
    piece = cut(model, "", ["layer"], torch.ones(1, 3))
    assert piece.module is not model
    assert isinstance(piece.module.layer, StandIn)
    assert isinstance(model.layer, nn.Linear)
    assert piece.module.layer.weight is model.layer.weight  # through the stand-in
    assert piece.module.act[0] is model.act[0]
    assert type(piece.module) is Caller
    assert not list(piece.module.layer.parameters())  # no second copy in an export


def test_a_module_without_inner_calls_is_not_copied() -> None:
    layer = nn.Linear(3, 3)
    assert InnerCalls().strip_module(layer) is layer
    assert InnerCalls().tensors == ()


def test_a_stand_in_has_no_attribute_that_the_module_lacks() -> None:
    stand_in = StandIn(nn.Linear(3, 2), InnerCalls())
    assert stand_in.out_features == 2
    with pytest.raises(AttributeError, match="missing"):
        _ = stand_in.missing


def test_other_calls_than_in_the_whole_model_are_refused() -> None:
    class Choosy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Identity(), nn.Identity()
            self.first = "a"

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return getattr(self, self.first)(x)

    model = Choosy()
    piece = cut(model, "", ["a", "b"], torch.ones(1))
    assert piece.run(piece.tensors)[-1].value.item() == 1
    piece.module.first = "b"
    # Only 'a' is replaced: the piece runs 'b' itself, which it did not in the model.
    assert isinstance(piece.module.b, nn.Identity)
    piece = cut(model, "", ["a"], torch.ones(1))
    message = r"^run separately, the module calls different submodules than in the whole model$"
    with pytest.raises(RuntimeError, match=message):
        piece.inner.replay_call(model.b, (torch.ones(1),), {})
    piece.inner.begin_run(piece.inner.tensors)
    piece.inner.replay_call(model.a, (torch.ones(1),), {})
    with pytest.raises(RuntimeError, match=message):  # one call too many
        piece.inner.replay_call(model.a, (torch.ones(1),), {})


def test_an_argument_that_is_overwritten_later_keeps_its_value() -> None:
    class Overwrites(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            z = self.inner(y.clone())
            self.inner(y)
            y += 10
            return y + z

    piece = cut(Overwrites(), "", ["inner"], torch.ones(1))._replace(writes=True)
    values = [computed.value.item() for computed in piece.run(piece.tensors)]
    assert values == [2, 2, 14]
    second = piece.run(piece.tensors)[1]
    assert second.tensor.item() == 12  # the object itself was changed


def two_pieces() -> tuple[Piece, Piece]:
    torch.manual_seed(0)
    layer = cut(nn.Sequential(nn.Linear(3, 3)).eval(), "0", [], torch.ones(1, 3))
    caller = cut(Caller().eval(), "", ["layer", "act"], torch.ones(2, 3))
    return layer._replace(leaves=(0,)), caller._replace(leaves=(1, 3))


def test_pieces_run_side_by_side_as_each_alone() -> None:
    layer, caller = two_pieces()
    together = SideBySide([layer, caller])
    assert together.names == ["piece_0_0", "piece_1_1", "piece_1_3"]
    assert len(together.tensors) == 1 + 4
    with torch.no_grad():
        found = together(*together.tensors)
        expected = [layer.run(layer.tensors)[0].value]
        expected += [caller.run(caller.tensors)[leaf].value for leaf in (1, 3)]
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=0)
    assert together.piece_output_names(1) == ["piece_1_1", "piece_1_3"]
    assert [path for path, _ in together.named_modules()][1:3] == ["pieces", "pieces.0"]


def test_outputs_side_by_side_are_distinct_and_no_inputs() -> None:
    class Returns(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x, x * 2

    piece = cut(nn.Sequential(Returns()), "0", [], torch.ones(1))
    together = SideBySide([piece._replace(leaves=(0, 1))] * 2)
    inputs = together.tensors
    found = together(*inputs)
    assert len({id(tensor) for tensor in [*found, *inputs]}) == len(found) + 1  # one input, twice
    assert [tensor.item() for tensor in found] == [1, 2, 1, 2]


def test_a_piece_that_writes_gets_copies() -> None:
    class Doubles(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2)

    target = target_of(nn.Sequential(Doubles()), torch.ones(1))
    call = record_calls(target.model, target.call, target.tensors, [("0", 0)])["0", 0]
    assert call.call is not None
    piece = Piece("0", 0, call.module, call.call, call.tensors, (0,), writes=True)
    together = SideBySide([piece, piece])
    assert [tensor.item() for tensor in together(*together.tensors)] == [2, 2]
    assert together.tensors[0].item() == 1


def test_the_modes_of_modules_stay() -> None:
    layer, _ = two_pieces()
    layer.module.train()
    assert not SideBySide([layer]).training
    assert layer.module.training


@pytest.mark.parametrize(
    ("path", "parents"),
    [("a", []), ("", []), ("a.b", ["a"]), ("body.0.conv", ["body", "body.0"])],
)
def test_the_parents_of_a_path(path: str, parents: list[str]) -> None:
    assert list(parent_paths(path)) == parents
