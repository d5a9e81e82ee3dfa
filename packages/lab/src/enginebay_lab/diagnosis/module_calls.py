"""The calls of a model's modules in PyTorch: their callers, their arguments, their results.

Imported only when torch is used.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import torch

from enginebay.authors import Call, evaluation
from enginebay_lab.diagnosis.intermediate_outputs import find_tensors, hooked_modules

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from torch import Tensor, nn

#: A call of a module: the module's path, and the number of the call.
Key: TypeAlias = tuple[str, int]


@dataclass
class ModuleCall:
    """A call of a module.

    Attributes:
        key: The module's path and the number of the call.
        module: The module.
        caller: The call that made it; None for the model's own call.
        size: The size of its input and output tensors in bytes.
        call: The arguments, with slots for the tensors; None if they are not recorded.
        tensors: The tensors of the arguments.
        result: The result, with slots for the tensors; None if it is not recorded.
        returned: The tensors of the result.
    """

    key: Key
    module: nn.Module
    caller: Key | None
    size: int = 0
    call: Call | None = None
    tensors: tuple[Tensor, ...] = ()
    result: Call | None = None
    returned: tuple[Tensor, ...] = ()

    def record_arguments(
        self, args: tuple[object, ...], kwargs: dict[str, object], *, with_tensors: bool
    ) -> None:
        """Record the arguments; tensors are copied, because the model may overwrite them."""
        self.size += _count_bytes((args, kwargs))
        if with_tensors:
            self.call, tensors = Call.record(args, kwargs)
            self.tensors = tuple(tensors.values())

    def record_result(self, result: object, *, with_tensors: bool) -> None:
        """Record the result, with copies of its tensors."""
        self.size += _count_bytes(result)
        if with_tensors:
            self.result, tensors = Call.record((result,), {})
            self.returned = tuple(tensors.values())


def record_calls(
    model: nn.Module, call: Call, tensors: Sequence[Tensor], with_tensors: Collection[Key] = ()
) -> dict[Key, ModuleCall]:
    """Run a model in PyTorch, and record the calls of its modules.

    Args:
        model: The model.
        call: The model's arguments, with slots for the tensors.
        tensors: The model's inputs.
        with_tensors: The calls whose tensors are recorded too.

    Returns:
        The calls in the order in which they end, the model's own last.
    """
    ended: dict[Key, ModuleCall] = {}
    running: list[ModuleCall] = []
    numbers: Counter[str] = Counter()

    def begin_call(
        path: str, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        key = path, numbers[path]
        numbers[path] += 1
        running.append(ModuleCall(key, module, running[-1].key if running else None))
        running[-1].record_arguments(args, kwargs, with_tensors=key in with_tensors)

    def end_call(path: str, _: object, __: object, result: object) -> None:
        while (ending := running.pop()).key[0] != path:
            pass  # this call raised, so no hook ended it, and the model caught the exception
        ending.record_result(result, with_tensors=ending.key in with_tensors)
        ended[ending.key] = ending

    with torch.no_grad(), evaluation(model), ExitStack() as stack:
        for path, module in hooked_modules(model):
            if path:
                # Before the module's own hooks: they run again when the module is called alone.
                hook = module.register_forward_pre_hook(
                    partial(begin_call, path), with_kwargs=True, prepend=True
                )
                stack.callback(hook.remove)
                stack.callback(module.register_forward_hook(partial(end_call, path)).remove)
        args, kwargs = call.fill([tensor.clone() for tensor in tensors])
        begin_call("", model, args, kwargs)
        end_call("", model, args, model(*args, **kwargs))
    return ended


def _count_bytes(value: object) -> int:
    return sum(tensor.nbytes for tensor in find_tensors(value))
