"""Every model by its name, built with random weights and nothing downloaded."""

from __future__ import annotations

import copy
import math
import warnings
from typing import TYPE_CHECKING, Any

from tests.torchvision_shim import import_torchvision

from .batches import BATCHES

if TYPE_CHECKING:
    import torch
    from torch import nn

#: The standard deviation below which an agreement is meaningless.
SMALL = 1e-3
#: The batch of each model, in order.
MODELS = {name: batch for batch, models in BATCHES.items() for name in models}


def build(name: str) -> tuple[nn.Module, Any]:
    """Return the model, initialised by its package, and its example inputs; always the same."""
    import torch

    import_torchvision()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the packages' own
        torch.manual_seed(0)
        model, inputs = BATCHES[MODELS[name]][name]()
        if isinstance(model, torch.nn.Module):  # not a function
            model.eval()
        if _fades(model, inputs):
            _train(model, inputs)
    return model, inputs


def run(model: nn.Module, inputs: Any) -> list[torch.Tensor]:
    """Return the tensors in the model's outputs, in any nesting."""
    import torch
    from torch.utils._pytree import tree_leaves

    arguments = copy.deepcopy(inputs)  # the model adds to its cache
    if not isinstance(arguments, (tuple, dict)):
        arguments = (arguments,)
    named = isinstance(arguments, dict)
    outputs = model(**arguments) if named else model(*arguments)
    leaves = tree_leaves(dict(outputs) if hasattr(outputs, "keys") else outputs)
    return [leaf for leaf in leaves if torch.is_tensor(leaf)]


def _fades(model: nn.Module, inputs: Any) -> bool:
    """True if all outputs are nearly constant, so that an agreement with them is meaningless.

    Only such models get new statistics: with random weights these make some networks chaotic, so
    that float32 is off from float64 by more than any tolerance.
    """
    floats = [leaf for leaf in run(model, inputs) if leaf.is_floating_point() and leaf.numel() > 1]
    return bool(floats) and all(leaf.isfinite().all() and leaf.std() < SMALL for leaf in floats)


def _train(model: nn.Module, inputs: Any) -> None:
    """Replace initial zeros and batch statistics, as training does."""
    from torch import nn
    from torch.utils._pytree import tree_map

    for parameter in model.parameters():
        if parameter.dim() > 1 and parameter.abs().max() < SMALL:
            parameter.normal_(std=1 / math.sqrt(parameter[0].numel()))
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = 1.0  # the last batch counts
        norm.train()
    if norms:
        run(model, tree_map(_eight, inputs))
    model.eval()


def _eight(value: Any) -> Any:
    """Replace a tensor by eight random tensors, for more general statistics."""
    import torch

    if not torch.is_tensor(value) or not value.dim():
        return value
    if value.is_floating_point():
        return torch.randn(8 * len(value), *value.shape[1:])
    return value.repeat_interleave(8, 0)
