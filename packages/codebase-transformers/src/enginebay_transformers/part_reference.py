"""A part's module in PyTorch, called as its file is: with tensors by the names of the file."""

from __future__ import annotations

import copy
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay_transformers import upstream

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from torch import Tensor, nn


@contextmanager
def full_caches() -> Iterator[None]:
    """Inside the block, a decoder's cache forgets nothing, as when it is exported.

    The exporters trace a layer with a sliding window as one without: its mask has the window.
    """
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    names = ("update", "get_mask_sizes", "get_seq_length")
    own = {name: getattr(DynamicSlidingWindowLayer, name) for name in names}
    try:
        for name in names:
            setattr(DynamicSlidingWindowLayer, name, getattr(DynamicLayer, name))
        yield
    finally:
        for name, function in own.items():
            setattr(DynamicSlidingWindowLayer, name, function)


def part_reference(
    module: nn.Module, inputs: dict[str, Any], names: Sequence[str], outputs: Collection[str]
) -> Any:
    """Return a module that takes and returns the tensors of a file, by name.

    Args:
        module: The module.
        inputs: Its inputs, nested as its ``forward`` takes them.
        names: The names of the file's inputs: the tensors' paths in ``inputs``, which follow
            ``input.`` if an output has the same path.
        outputs: The names of the file's outputs, likewise.
    """
    from torch import nn

    class Reference(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module
            leaves = upstream.get_leaf_tensors(inputs)
            self.tensors = {name: leaves[name.removeprefix("input.")] for name in names}
            # A mask that the file does not take is none of the module either.
            self.inputs = {
                name: value
                for name, value in inputs.items()
                if name in self.tensors or not hasattr(value, "shape")
            }

        def forward(self, **tensors: Tensor) -> dict[str, Tensor]:
            replaced: dict[int, Any] = {
                id(self.tensors[name]): each for name, each in tensors.items()
            }
            result = self.module(**copy.deepcopy(self.inputs, replaced))
            found = upstream.get_leaf_tensors(result)
            return {name: found[name.removeprefix("output.")] for name in outputs}

    return Reference()
