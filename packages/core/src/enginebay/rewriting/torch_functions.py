"""torch functions that are written in Python, such as ``torch.nn.functional.layer_norm``.

They ask first whether a mode is in force, and hand themselves to it. Modes are switched off while
they answer, so what such a function calls inside would be missed. Inside a context they are
therefore told that none is, and run as they are: what they call arrives at the mode. One that is
rewritten itself is patched like any other Python function.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch._C import (
    _disabled_torch_function_impl,
    _get_function_stack_at,
    _is_torch_function_enabled,
    _len_torch_function_stack,
)
from torch.jit._builtins import _register_builtin
from torch.overrides import (
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)

from enginebay.rewriting.layers import current
from enginebay.rewriting.modes import RewriteMode, is_on
from enginebay.rewriting.python_functions import CodePatch, Patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FunctionType

    from enginebay.rewriting.layers import Bound

#: The modules with such functions. What asks elsewhere, as ``nn.MultiheadAttention`` does before
#: it takes its fast path, must know the truth.
_MODULES = (
    "torch.functional",
    "torch.nn.functional",
    "torch._tensor",
    "torch._lowrank",
    "torch._lobpcg",
)


class TorchFunctionPatch(CodePatch):
    """A torch function written in Python. Inside its own rewriter it is what the rewriter hides."""

    def hidden_by(self, bound: Bound) -> Callable[..., Any]:  # noqa: ARG002  # whichever it is
        """The function itself, which finds out by what is at work."""
        return self.function

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the rewriter of this thread that is not at work yet, or the original."""
        layers = current()
        bound = layers.table.get(self.key)
        while bound is not None and bound in layers.running:
            bound = bound.below
        # Switched off is the mode while it runs an original, and while an exporter works alone.
        if bound is None or not is_on(layers.mode):
            return self.original(*args, **kwargs)
        layers.running.add(bound)
        try:
            return bound(*args, **kwargs)
        finally:
            layers.running.discard(bound)


class Checks(Patch):
    """What torch's functions ask, answered with no where the mode of a context would be asked."""

    def __init__(self) -> None:
        super().__init__(("torch.overrides", "has_torch_function"))

    def install(self) -> None:
        """Exchange the three questions in every module that asks them."""
        _exchange({name: ours for name, (_, ours) in _ANSWERS.items()})

    def uninstall(self) -> None:
        """Put the three back."""
        _exchange({name: torchs for name, (torchs, _) in _ANSWERS.items()})


def _exchange(answers: dict[str, Callable[..., bool]]) -> None:
    for module in map(sys.modules.__getitem__, _MODULES):
        for name in answers.keys() & vars(module):
            setattr(module, name, answers[name])


def asks_for_modes(function: FunctionType) -> bool:
    """Whether a Python function hands itself to modes, as torch's do."""
    asked = _ANSWERS.keys() & function.__code__.co_names
    return bool(asked) and function.__globals__.get("__name__") in _MODULES


def _any(values: Iterable[Any]) -> bool:
    return _overridden(values) if _mode_is_asked() else has_torch_function(values)


def _unary(value: Any) -> bool:
    return _overridden((value,)) if _mode_is_asked() else has_torch_function_unary(value)


def _variadic(*values: Any) -> bool:
    return _overridden(values) if _mode_is_asked() else has_torch_function_variadic(*values)


def _mode_is_asked() -> bool:
    """Whether a context's mode is the innermost of this thread, which is asked first."""
    depth = _len_torch_function_stack()
    return depth > 0 and type(_get_function_stack_at(depth - 1)) is RewriteMode


def _overridden(values: Iterable[Any]) -> bool:
    """Whether a tensor subclass has a say: ``has_torch_function``, modes apart."""
    return any(_has_a_say(type(value)) for value in values) and _is_torch_function_enabled()


def _has_a_say(kind: type) -> bool:
    if kind is Tensor or kind is nn.Parameter:
        return False
    handler = getattr(kind, "__torch_function__", None)
    return handler is not None and handler is not _disabled_torch_function_impl


_ANSWERS: dict[str, tuple[Callable[..., bool], Callable[..., bool]]] = {
    "has_torch_function": (has_torch_function, _any),
    "has_torch_function_unary": (has_torch_function_unary, _unary),
    "has_torch_function_variadic": (has_torch_function_variadic, _variadic),
}

# A function that is compiled inside a context finds the answers there, and must find an operator.
for _, _answer in _ANSWERS.values():
    _register_builtin(_answer, "aten::has_torch_function")
