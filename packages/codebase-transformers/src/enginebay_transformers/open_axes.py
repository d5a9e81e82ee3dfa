"""Chooses the axes that are open if a user asks for dynamic sizes without naming them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.authors.arrays import output_leaves
from enginebay_transformers import upstream

if TYPE_CHECKING:
    from collections.abc import Mapping

_IDS = ("decoder_input_ids", "decoder_inputs_embeds", "input_ids", "inputs_embeds")
#: Inputs whose second axis is the tokens, without a ``decoder_`` in front.
_BY_TOKEN = ("input_ids", "inputs_embeds", "attention_mask", "token_type_ids", "position_ids")


def open_axes(inputs: Mapping[str, Any]) -> dict[str, dict[int, str]]:
    """Return input → axis → name, for the batch, the tokens, the past, and an encoder's tokens.

    The sizes of images stay fixed, as most models are made for one, and so do all sizes beside a
    cache of fixed size. With a past, a single token stays a single one.

    Args:
        inputs: Example inputs of a model of transformers by name, caches included.

    Example:
        >>> import torch
        >>> open_axes({"input_ids": torch.ones(2, 7, dtype=torch.int64)})
        {'input_ids': {0: 'batch', 1: 'tokens'}}
    """
    if any(isinstance(value, upstream.StaticCache) for value in inputs.values()):
        return {}
    shapes = {name: leaf.shape for name, leaf in output_leaves(inputs) if hasattr(leaf, "shape")}
    caches = [n for n, size in shapes.items() if n.endswith((".key", ".value")) and len(size) == 4]
    past = next((shapes[name][2] for name in caches if "cross_" not in name), 0)
    batch, count = next((shapes[name][:2] for name in _IDS if name in shapes), (None, 0))
    two_parts = any(name.startswith("decoder_") for name in shapes)
    opened = {}
    for name, shape in shapes.items():
        own = "1" if past and count == 1 else "tokens"
        if two_parts and not name.startswith("decoder_"):
            own = "source"
        axes = {0: "batch"} if shape[:1] in ((batch,), next(iter(shapes.values()))[:1]) else {}
        if name in caches and shape[2] and ("cross_" in name or shape[2] == past):
            axes[2] = "source" if "cross_" in name else "past"
        elif name.startswith("encoder_outputs.") and len(shape) == 3:
            axes[1] = "source"
        elif name.removeprefix("decoder_") in _BY_TOKEN and 1 < len(shape) < 4:
            is_sum = past and own != "source" and shape[1] == past + count
            axes[1] = f"past+{own}" if is_sum else own
        opened[name] = {axis: text for axis, text in axes.items() if text != "1"}
    return {name: axes for name, axes in opened.items() if axes}
