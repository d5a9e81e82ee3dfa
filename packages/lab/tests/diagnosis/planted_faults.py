"""An engine that is PyTorch itself, with a fault planted in one module, for searches.

It needs neither an export nor a process, so that a test can search hundreds of models.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from enginebay.authors.arrays import compare_outputs
from enginebay.authors.sources import Call
from enginebay.errors import ConversionError
from enginebay_lab.diagnosis.intermediate_outputs import ModuleOutputsModel, record_shapes
from enginebay_lab.diagnosis.module_search import EngineComparison, ModuleSearch, SearchTarget
from enginebay_lab.diagnosis.pieces import SideBySide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    Hook = Callable[[nn.Module, Any, Any], Any]
    Refusal = Callable[[nn.Module, Sequence[str]], bool]


def add_a_tenth(_: nn.Module, __: object, result: Tensor) -> Tensor:
    """Corrupt a module's result."""
    return result + 0.1


def add_to_input(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Corrupt what a module does before it calls its submodules."""
    return (args[0] + 0.1, *args[1:])


class PlantedEngine:
    """Compares modules with themselves, while some of their submodules have faults.

    Args:
        faults: Submodules, and the forward hook that corrupts the result of each.
        before: Submodules, and the hook that corrupts the inputs of each.
        fused: The faults show only in an engine of the model with a single output.
        refuses: Returns True for a module that the engine does not build.
        crashes: Returns True for a module at which the engine crashes.

    Attributes:
        built: The names of the outputs of each engine, in order.
    """

    def __init__(
        self,
        faults: dict[nn.Module, Hook] | None = None,
        *,
        before: dict[nn.Module, Callable[..., Any]] | None = None,
        fused: bool = False,
        refuses: Refusal = lambda module, names: False,
        crashes: Refusal = lambda module, names: False,
    ) -> None:
        self.faults, self.before = faults or {}, before or {}
        self.fused, self.refuses, self.crashes = fused, refuses, crashes
        self.built: list[list[str]] = []

    def __call__(
        self, module: nn.Module, tensors: Sequence[Tensor], names: Sequence[str]
    ) -> EngineComparison:
        self.built.append(list(names))
        if self.refuses(module, names):
            raise ConversionError("this engine does not build that")
        if self.crashes(module, names):
            return EngineComparison({}, "ended with SIGSEGV", (), Path())
        is_fused = isinstance(module, ModuleOutputsModel) and len(names) == 1
        with torch.no_grad():
            expected = module(*[tensor.clone() for tensor in tensors])
            with self._broken(wrong=not self.fused or is_fused):
                found = module(*[tensor.clone() for tensor in tensors])
        compared = compare_outputs(
            dict(zip(names, expected, strict=True)), dict(zip(names, found, strict=True))
        )
        return EngineComparison({output.name: output for output in compared}, "", (), Path())

    @contextmanager
    def _broken(self, *, wrong: bool) -> Iterator[None]:
        with ExitStack() as stack:
            for module, hook in self.faults.items() if wrong else ():
                stack.callback(module.register_forward_hook(hook).remove)
            for module, hook in self.before.items() if wrong else ():
                stack.callback(module.register_forward_pre_hook(hook).remove)
            yield


def target_of(model: nn.Module, *args: Any, **kwargs: Any) -> SearchTarget:
    """Return the search target of a model that is called with some arguments."""
    call, tensors = Call.record(args, kwargs)
    given = tuple(tensors.values())
    return SearchTarget(model, call, given, record_shapes(model, call, given))


def search_of(engine: PlantedEngine, model: nn.Module, *args: Any) -> ModuleSearch:
    """Return a search in a model with the engine, which says nothing on its progress."""
    return ModuleSearch(target_of(model, *args), engine, lambda text: None)


def runs_alone(module: nn.Module, path: str) -> bool:
    """Return True if a combination of pieces (submodels) has one of the module at ``path``."""
    return isinstance(module, SideBySide) and path in {piece.path for piece in module.calls}
