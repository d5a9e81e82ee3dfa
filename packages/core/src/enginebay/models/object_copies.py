"""Copies of the objects among a forward's arguments, so that a forward changes nobody else's.

Imported only where torch is about to be used: the class needs it at import.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from enginebay.models.forward_pass import detached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class CopyObjects(TorchFunctionMode):
    """Copies objects deeply, and a tensor in them as :func:`detached` does.

    torch itself refuses to copy a tensor that a forward computed with gradients on. What several
    objects share, their copies share.

    Attributes:
        tensors: The number of tensors that were copied.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tensors = 0
        self._memo: dict[int, Any] = {}

    def __call__(self, value: Any) -> Any:
        """A copy of one object."""
        with self:
            return copy.deepcopy(value, self._memo)

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Copy a tensor; every other function of torch runs as it is."""
        if function is not torch.Tensor.__deepcopy__:
            return function(*args, **(kwargs or {}))
        tensor = args[0]
        self.tensors += id(tensor) not in self._memo
        return self._memo.setdefault(id(tensor), detached(tensor))
