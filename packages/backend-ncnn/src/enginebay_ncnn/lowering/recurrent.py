"""Recurrent networks, step by step.

pnnx knows them as modules, of which nothing is left once a file is frozen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from enginebay_ncnn.lowering.arithmetic import lower_add, lower_mul, lower_sub
from enginebay_ncnn.lowering.contraction import lower_linear
from enginebay_ncnn.lowering.layout import (
    lower_cat,
    lower_select,
    lower_stack,
    lower_transpose,
    lower_unbind,
    narrow,
)
from enginebay_ncnn.lowering.registry import UnsupportedError, lowers, sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    #: From the input's part of the gates, the weights and the states to the states after it.
    Cell = Callable[[Tensor, Sequence[Tensor], list[Tensor]], list[Tensor]]

#: More steps than so many make a network that takes longer to load than to run.
_STEPS = 1024


def _long_short(gates: Tensor, weights: Sequence[Tensor], states: list[Tensor]) -> list[Tensor]:
    hidden, cell = states
    gates = lower_add(gates, lower_linear(hidden, weights[1], *weights[3:4]))
    size = sizes_of(hidden)[-1]
    into, forget, new, out = (narrow(gates, 1, place * size, size) for place in range(4))
    cell = lower_add(lower_mul(forget.sigmoid(), cell), lower_mul(into.sigmoid(), new.tanh()))
    return [lower_mul(out.sigmoid(), cell.tanh()), cell]


def _gated(gates: Tensor, weights: Sequence[Tensor], states: list[Tensor]) -> list[Tensor]:
    (hidden,) = states
    own = lower_linear(hidden, weights[1], *weights[3:4])
    size = sizes_of(hidden)[-1]
    reset, update = (
        lower_add(
            narrow(gates, 1, place * size, size), narrow(own, 1, place * size, size)
        ).sigmoid()
        for place in range(2)
    )
    last = lower_mul(reset, narrow(own, 1, 2 * size, size))
    new = lower_add(narrow(gates, 1, 2 * size, size), last).tanh()
    return [lower_add(new, lower_mul(update, lower_sub(hidden, new)))]


def _plain(function: Callable[[Tensor], Tensor]) -> Cell:
    def cell(gates: Tensor, weights: Sequence[Tensor], states: list[Tensor]) -> list[Tensor]:
        return [function(lower_add(gates, lower_linear(states[0], weights[1], *weights[3:4])))]

    return cell


def _run(
    cell: Cell,
    x: Tensor,
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """All layers: the outputs of the last, and the last states of each."""
    time = 1 if batch_first else 0
    if sizes_of(x)[time] > _STEPS:
        raise UnsupportedError(f"a recurrent network of more than {_STEPS} steps")
    x = lower_transpose(x, 0, time)
    directions = 2 if bidirectional else 1
    width = 4 if has_biases else 2
    last: list[list[Tensor]] = [[] for _ in states]
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            weights = params[place * width : (place + 1) * width]
            now = [lower_select(state, 0, place) for state in states]
            found = []
            gates = lower_unbind(lower_linear(x, weights[0], *weights[2:3]))
            for step in reversed(gates) if direction else gates:
                now = cell(step, weights, now)
                found.append(now[0])
            outputs.append(found[::-1] if direction else found)
            for kept, state in zip(last, now, strict=True):
                kept.append(state)
        x = lower_cat([lower_stack(each, 0) for each in outputs], 2)
    return lower_transpose(x, 0, time), *(lower_stack(each, 0) for each in last)


def _declare(name: str, cell: Cell) -> None:
    @lowers(f"{name}.input")
    def lowering(
        x: Tensor,
        hx: Tensor | Sequence[Tensor],
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, ...]:
        del dropout, train
        states = [hx] if isinstance(hx, torch.Tensor) else hx
        return _run(cell, x, states, params, has_biases, num_layers, bidirectional, batch_first)


_declare("lstm", _long_short)
_declare("gru", _gated)
_declare("rnn_tanh", _plain(torch.tanh))
_declare("rnn_relu", _plain(torch.relu))
