"""The calls of a model's modules, as PyTorch makes them: who calls whom, and with what.

Imported only where torch is about to be used.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from enginebay.authors import Call, evaluation
from enginebay_lab.diagnosis.taps import hooked_modules, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from torch import Tensor, nn

#: A call of a module: its path, and the call's number.
Key: TypeAlias = tuple[str, int]


@dataclass
class ModuleCall:
    """A call of a module.

    Attributes:
        key: The module's path and the number of the call.
        module: The module.
        around: The call that made it; None for the model's own.
        size: Bytes of the tensors that go in and come out.
        call: Its arguments, with slots for the tensors; None where they are not wanted.
        given: These tensors.
        result: What it returned, likewise.
        returned: These tensors.
    """

    key: Key
    module: nn.Module
    around: Key | None
    size: int = 0
    call: Call | None = None
    given: tuple[Tensor, ...] = ()
    result: Call | None = None
    returned: tuple[Tensor, ...] = ()

    def begin(self, args: Any, kwargs: Any, *, wanted: bool) -> None:
        """Note what it is called with; copied here and now, since it may be overwritten."""
        self.size += _size((args, kwargs))
        if wanted:
            self.call, tensors = Call.record(args, kwargs)
            self.given = tuple(tensors.values())

    def end(self, result: Any, *, wanted: bool) -> None:
        """Note what it returns."""
        self.size += _size(result)
        if wanted:
            self.result, tensors = Call.record((result,), {})
            self.returned = tuple(tensors.values())


def record_calls(
    model: nn.Module, call: Call, tensors: Sequence[Tensor], wanted: Collection[Key] = ()
) -> dict[Key, ModuleCall]:
    """Run a model in PyTorch, and record the calls of its modules.

    Args:
        model: The model.
        call: How it is called.
        tensors: Its inputs.
        wanted: The calls whose tensors are kept.

    Returns:
        The calls in the order in which they end, the model's own last.
    """
    ended: dict[Key, ModuleCall] = {}
    running: list[ModuleCall] = []
    numbers: Counter[str] = Counter()

    def begin(path: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        key = path, numbers[path]
        numbers[path] += 1
        running.append(ModuleCall(key, module, running[-1].key if running else None))
        running[-1].begin(args, kwargs, wanted=key in wanted)

    def end(path: str, result: Any) -> None:
        while (one := running.pop()).key[0] != path:
            pass  # what raised has not ended, and the model has gone on
        one.end(result, wanted=one.key in wanted)
        ended[one.key] = one

    def before(path: str) -> Callable[[nn.Module, Any, Any], None]:
        return lambda module, args, kwargs: begin(path, module, args, kwargs)

    def after(path: str) -> Callable[[nn.Module, Any, Any], None]:
        return lambda _, __, result: end(path, result)

    with torch.no_grad(), evaluation(model), ExitStack() as stack:
        for path, module in hooked_modules(model):
            if path:
                # Its own hooks are run again wherever it is called.
                hook = module.register_forward_pre_hook(
                    before(path), with_kwargs=True, prepend=True
                )
                stack.callback(hook.remove)
                stack.callback(module.register_forward_hook(after(path)).remove)
        args, kwargs = call.fill([tensor.clone() for tensor in tensors])
        begin("", model, args, kwargs)
        end("", model(*args, **kwargs))
    return ended


def _size(value: Any) -> int:
    return sum(tensor.nbytes for tensor in tensors_in(value))
