"""Rewriters of LSTMs with projections (``proj_size``), and of ``pad_packed_sequence``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay_rewriters.builtin.common import is_tracing, rewriters, torchscript_only

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor
    from torch.nn.utils.rnn import PackedSequence

    from enginebay.authors import Context


# ONNX's LSTM has no projection: dynamo omits it, and only OpenVINO runs the resulting shapes.
# TorchScript, pnnx and ncnn refuse it.
@rewriters.function("torch.lstm")
def lstm(ctx: Context, input: Tensor, *args: Any, **kwargs: object) -> object:
    """Run an LSTM without projection, and multiply its outputs by the projection weights W_hr.

    A hidden state is h = W_hr·r, where r is the state before the projection. The recurrent product
    W_hh·h is thus (W_hh·W_hr)·r, and W_hh·W_hr are the recurrent weights of the new LSTM. For the
    initial hidden state h, no r is known. This h is therefore concatenated to the first step of the
    input, and W_hh is concatenated to the input weights.
    """
    import torch

    # For a packed sequence the second argument is the batch sizes.
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
        indices = slice(layer * directions, (layer + 1) * directions)
        weights = [
            params[index * width : (index + 1) * width] for index in range(layers * directions)
        ]
        x, *states = _run_layer(ctx, x, hidden[indices], cell[indices], weights[indices])
        last.append((states[0], states[1]))
    return (
        x.transpose(0, 1) if batch_first else x,
        torch.cat([each[0] for each in last]),
        torch.cat([each[1] for each in last]),
    )


def _run_layer(
    ctx: Context, x: Tensor, hidden: Tensor, cell: Tensor, weights: Sequence[Sequence[Tensor]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one layer in all directions; return its output, last hidden state and last cell state."""
    import torch

    steps, directions = x.shape[0], len(weights)
    # The second direction runs backwards: its first step is the last one of the input.
    starts = [
        torch.nn.functional.pad(state, (0, 0, 0, 0, *((steps - 1, 0) if index else (0, steps - 1))))
        for index, state in enumerate(hidden.chunk(directions))
    ]
    params: list[Tensor] = []
    for index, (w_ih, w_hh, *biases, w_hr) in enumerate(weights):
        zeros = torch.zeros_like(w_hh)
        initial = [w_hh if each == index else zeros for each in range(directions)]
        params += [torch.cat([w_ih, *initial], 1), w_hh @ w_hr, *biases]
    inputs = torch.cat([x, *starts], -1)
    state = (torch.zeros_like(cell), cell)
    output, raw, cell = ctx.origin_func(
        inputs, state, params, len(weights[0]) == 5, 1, 0.0, False, directions == 2, False
    )
    projections = [each[-1].t() for each in weights]
    parts = zip(output.chunk(directions, -1), raw.chunk(directions), projections, strict=True)
    projected = [(part @ w_hr, state @ w_hr) for part, state, w_hr in parts]
    return torch.cat([p for p, _ in projected], -1), torch.cat([s for _, s in projected]), cell


# The TorchScript exporter pads with zeros, and to the packed length instead of the longest
# sequence. It writes lengths in int32, but declares them as int64.
@rewriters.function("torch.nn.utils.rnn.pad_packed_sequence", check=torchscript_only)
def pad_packed_sequence(
    ctx: Context,
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> object:
    """Call torch's function; during a trace, correct the length and the padding of its result.

    Without ``total_length``, the result is as long as the longest sequence. All padding elements
    are set to ``padding_value``.
    """
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
        is_padding = steps.unsqueeze(1) >= ends
        is_padding = (is_padding.t() if batch_first else is_padding).unsqueeze(2)
        padded = torch.where(is_padding, torch.full_like(padded, padding_value), padded)
    return padded, ends.long()
