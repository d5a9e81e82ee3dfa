"""Deep copies of objects among a forward's arguments, since a forward may change its arguments.

Import this file lazily: it imports torch at its top, since the class derives from one of torch's.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from enginebay.state.forward_pass import copy_detached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_T = TypeVar("_T")


class CopyObjects(TorchFunctionMode):
    """Makes deep copies of objects, in which tensors are detached from their gradient history.

    torch itself refuses to deep-copy a tensor with a gradient history. A value that several objects
    share is copied once, and their copies share that copy.

    Attributes:
        tensors: The number of copied tensors.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tensors = 0
        self._memo: dict[int, Any] = {}

    def __call__(self, value: _T) -> _T:
        """Return a copy of one object."""
        with self:
            return copy.deepcopy(value, self._memo)

    def __torch_function__(
        self,
        function: Callable[..., object],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Copy ``args[0]`` if ``function`` is ``Tensor.__deepcopy__``; else call ``function``."""
        if function is not torch.Tensor.__deepcopy__:
            return function(*args, **(kwargs or {}))
        tensor = args[0]
        self.tensors += id(tensor) not in self._memo
        return self._memo.setdefault(id(tensor), copy_detached(tensor))
