"""Operators for onnx's evaluator that run step by step: recurrent layers, ``Loop`` and ``Scan``."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx.helper import tensor_dtype_to_np_dtype

from enginebay.evaluator.operators import Arrays, Operator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.tensors import NumpyArray


class GRU(Operator):
    """onnx's ignores the lengths of the sequences, and some attributes."""

    usual: tuple[str, ...] = ("sigmoid", "tanh")

    def _run(
        self, x: NumpyArray, weights: NumpyArray, recurrence: NumpyArray, *more: Any, **others: Any
    ) -> Arrays:
        names = [name.lower() for name in others.get("activations") or ()]
        if any(name != usual for name, usual in zip(names, self.usual * 2, strict=False)):
            raise NotImplementedError(f"onnx ignores the activations {', '.join(names)}")
        for name in ("clip", "input_forget"):
            if others.get(name):
                raise NotImplementedError(f"onnx ignores {name}")
        kind = self.onnx_node.op_type
        given: list[Any] = [*more, *[None] * (5 - len(more))]
        bias, lengths, rest = given[0], given[1], given[2:]
        if lengths is None:
            inputs = x, weights, recurrence, bias, None, *rest[: len(more) - 2]
            return self.run_as(kind, self.opset, inputs, others)
        rows, batch = [], 0 if others.get("layout") else 1
        for number, length in enumerate(lengths.tolist()):
            one = x.take([number], batch).take(range(max(length, 1)), 1 - batch)
            states = [each if each is None else each.take([number], batch) for each in rest[:2]]
            inputs = one, weights, recurrence, bias, None, *states, rest[2]
            first, *last = self.run_as(kind, self.opset, inputs[: 3 + len(more)], others)
            widths = [(0, 0)] * first.ndim
            widths[1 - batch] = (0, x.shape[1 - batch] - one.shape[1 - batch])
            found = np.pad(first, widths), *last
            rows.append(found if length else [np.zeros_like(each) for each in found])
        axes = 0 if batch == 0 else 2, batch, batch  # of all steps, and of the last states
        return tuple(
            np.concatenate(each, axis)
            for each, axis in zip(zip(*rows, strict=True), axes, strict=False)
        )


class LSTM(GRU):
    """As :class:`GRU`."""

    usual = ("sigmoid", "tanh", "tanh")


class RNN(GRU):
    """As :class:`GRU`."""

    usual = ("tanh",)


class _Repeating(Operator):
    """An operator that runs its ``body`` again and again."""

    def need_context(self) -> bool:
        return True  # the body may use every value around it

    def stack(self, number: int, rows: Sequence[NumpyArray], axis: int = 0) -> NumpyArray:
        """Return an output of all turns; without turns, of the type that the body declares."""
        if rows:
            return np.stack(rows, axis)
        kind = self.body.output_types[number].tensor_type
        dims = [each.dim_value for each in kind.shape.dim]
        return np.zeros((*dims[:axis], 0, *dims[axis:]), tensor_dtype_to_np_dtype(kind.elem_type))


class Loop(_Repeating):
    """onnx's concatenates the outputs of the turns that it must stack."""

    def _run(
        self, trips: Any, keeps: Any, *state: Any, context: Mapping[str, Any], **others: Any
    ) -> tuple[Any, ...]:
        turns: list[list[Any]] = []
        values, keeps = state, np.array(True) if keeps is None else keeps
        for turn in count():
            if not keeps or (trips is not None and turn >= trips):
                break
            given = zip(self.body.input_names, [np.array(turn), keeps, *values], strict=True)
            keeps, *found = self._run_body(
                {**context, **dict(given)}, attributes=others["attributes"]
            )
            values = tuple(found[: len(state)])
            turns.append(found[len(state) :])
        stacked = (
            self.stack(1 + len(state) + number, [turn[number] for turn in turns])
            for number in range(len(self.body.output_names) - 1 - len(state))
        )
        return (*values, *stacked)


class Scan(_Repeating):
    """onnx's has the first axis and the forward direction only."""

    def _run(
        self,
        *inputs: NumpyArray,
        num_scan_inputs: int,
        context: Mapping[str, Any],
        attributes: Any = None,
        **ways: Any,
    ) -> Arrays:
        fixed = len(inputs) - num_scan_inputs
        number = len(self.body.output_names) - fixed
        axes, directions = (
            ways.get(f"scan_input_{name}") or [0] * num_scan_inputs
            for name in ("axes", "directions")
        )
        sequences = [
            np.moveaxis(each, axis, 0)[:: -1 if backwards else 1]
            for each, axis, backwards in zip(inputs[fixed:], axes, directions, strict=True)
        ]
        values, turns = inputs[:fixed], []
        for rows in zip(*sequences, strict=True):
            given = dict(zip(self.body.input_names, [*values, *rows], strict=True))
            found = self._run_body({**context, **given}, attributes=attributes)
            values = found[:fixed]
            turns.append(found[fixed:])
        axes, directions = (
            ways.get(f"scan_output_{name}") or [0] * number for name in ("axes", "directions")
        )
        stacked = (
            self.stack(
                fixed + i, [turn[i] for turn in turns[:: -1 if directions[i] else 1]], axes[i]
            )
            for i in range(number)
        )
        return (*values, *stacked)
