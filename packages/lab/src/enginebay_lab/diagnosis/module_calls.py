"""The calls of a model's modules in PyTorch, with their callers, arguments and results.

Imported only when torch is used.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import torch

from enginebay.authors.sources import Call, evaluation
from enginebay_lab.diagnosis.intermediate_outputs import find_tensors, hooked_modules

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from torch import Tensor, nn

#: A call of a module: the module's path, and the index of the call among the module's calls.
Key: TypeAlias = tuple[str, int]


@dataclass
class ModuleCall:
    """One call of a module.

    Attributes:
        key: The module's path and the index of the call.
        module: The called module.
        caller: The module call that makes this call; None for the call of the model itself.
        size: The total size of the tensors in the arguments and in the result, in bytes.
        call: The arguments, with a placeholder for each tensor; None if they were not recorded.
        tensors: Copies of the arguments' tensors.
        result: The result, with a placeholder for each tensor; None if it was not recorded.
        returned: Copies of the result's tensors.
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
        """Add the arguments' bytes to ``size``; store the arguments if ``with_tensors`` is True."""
        self.size += _count_bytes((args, kwargs))
        if with_tensors:
            self.call, tensors = Call.record(args, kwargs)
            self.tensors = tuple(tensors.values())

    def record_result(self, result: object, *, with_tensors: bool) -> None:
        """Add the result's bytes to ``size``; store the result if ``with_tensors`` is True."""
        self.size += _count_bytes(result)
        if with_tensors:
            self.result, tensors = Call.record((result,), {})
            self.returned = tuple(tensors.values())


def record_calls(
    model: nn.Module, call: Call, tensors: Sequence[Tensor], with_tensors: Collection[Key] = ()
) -> dict[Key, ModuleCall]:
    """Run a model in PyTorch, and record the calls of its modules.

    Args:
        model: The PyTorch model to run.
        call: The model's arguments, with a placeholder for each tensor.
        tensors: The model's input tensors.
        with_tensors: The calls of which the arguments and the result are recorded too.

    Returns:
        The calls in the order in which they end; the call of the model itself is last.
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
            if path:  # the model itself is called below, without hooks
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
