"""LSTMs with projections (``proj_size``) as ordinary ones, which every exporter and engine has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.common import is_tracing, rewriters, torchscript_only

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from enginebay.rewriting.rewriter import Context


# ONNX's LSTM has no projection: dynamo leaves it out, and no engine but OpenVINO runs the shapes
# that come of it; TorchScript refuses it, and so do pnnx and ncnn.
@rewriters.function("torch.lstm")
def lstm(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Project after each layer, and in the recurrent weights: W_hh·h is (W_hh·W_hr)·r.

    The first state is no projection of an r: it goes in beside the first step of the input, by
    the weights W_hh.
    """
    import torch

    # A packed sequence has the sizes of its batches before the states.
    if kwargs or len(args) != 8 or isinstance(args[0], torch.Tensor):
        return ctx.origin_func(input, *args, **kwargs)
    (hidden, cell), params, has_biases, layers, dropout, train, bidirectional, batch_first = args
    directions = 2 if bidirectional else 1
    width = 5 if has_biases else 3
    if len(params) != layers * directions * width or (train and dropout):
        return ctx.origin_func(input, *args)
    x = input.transpose(0, 1) if batch_first else input
    last: list[tuple[Tensor, Tensor]] = []
    for layer in range(layers):
        places = slice(layer * directions, (layer + 1) * directions)
        weights = [
            params[place * width : (place + 1) * width] for place in range(layers * directions)
        ]
        x, *states = _layer(ctx, x, hidden[places], cell[places], weights[places])
        last.append((states[0], states[1]))
    return (
        x.transpose(0, 1) if batch_first else x,
        torch.cat([each[0] for each in last]),
        torch.cat([each[1] for each in last]),
    )


def _layer(
    ctx: Context, x: Tensor, hidden: Tensor, cell: Tensor, weights: Sequence[Sequence[Tensor]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one layer in all its directions: its output, its last hidden and its last cell state."""
    import torch

    steps, directions = x.shape[0], len(weights)
    starts = [
        torch.nn.functional.pad(state, (0, 0, 0, 0, *((steps - 1, 0) if place else (0, steps - 1))))
        for place, state in enumerate(hidden.chunk(directions))
    ]
    params: list[Tensor] = []
    for place, (w_ih, w_hh, *biases, w_hr) in enumerate(weights):
        none = torch.zeros_like(w_hh)
        starting = [w_hh if each == place else none for each in range(directions)]
        params += [torch.cat([w_ih, *starting], 1), w_hh @ w_hr, *biases]
    given = torch.cat([x, *starts], -1)
    state = (torch.zeros_like(cell), cell)
    output, raw, cell = ctx.origin_func(
        given, state, params, len(weights[0]) == 5, 1, 0.0, False, directions == 2, False
    )
    projections = [each[-1].t() for each in weights]
    parts = zip(output.chunk(directions, -1), raw.chunk(directions), projections, strict=True)
    projected = [(part @ w_hr, state @ w_hr) for part, state, w_hr in parts]
    return torch.cat([p for p, _ in projected], -1), torch.cat([s for _, s in projected]), cell


# The TorchScript exporter pads with zeros, to the length that was packed, where torch stops at the
# longest; and its lengths are int32, which it does not know.
@rewriters.function("torch.nn.utils.rnn.pad_packed_sequence", check=torchscript_only)
def pad_packed_sequence(
    ctx: Context,
    sequence: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> Any:
    """Cut behind the longest sequence, and write the value behind each."""
    padded, lengths = ctx.origin_func(sequence, batch_first, padding_value, total_length)
    if not is_tracing():
        return padded, lengths
    import torch

    time = 1 if batch_first else 0
    ends = lengths.int()
    if total_length is None:
        longest = ends.max().long()
        padded = padded[:, :longest] if batch_first else padded[:longest]
    if padding_value:
        steps = torch.arange(padded.shape[time], device=padded.device).int()
        behind = steps.unsqueeze(1) >= ends
        behind = (behind.t() if batch_first else behind).unsqueeze(2)
        padded = torch.where(behind, torch.full_like(padded, padding_value), padded)
    return padded, ends.long()
