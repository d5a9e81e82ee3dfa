"""Function rewriters: from declarations to one layer of bound rewriters."""

from __future__ import annotations

import functools
import sys
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MethodDescriptorType
from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError
from enginebay.rewriting import names
from enginebay.rewriting.layers import Bound, put_in_force
from enginebay.rewriting.python_functions import Patch, applied, patch_for
from enginebay.rewriting.selection import most_specific

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from contextlib import ExitStack

    from enginebay.rewriting.declaration import Rewriter


class FunctionRewriters:
    """The function rewriters of one context.

    Args:
        rewriters: Those that apply, losers included.
        not_found: Takes one line for each name that no loaded module has.

    Attributes:
        bound: One entry a rewriter that will be in force.

    Raises:
        RewriterError: Two are equally specific, or a name is not that of a function.
    """

    def __init__(self, rewriters: Iterable[Rewriter], not_found: list[str]) -> None:
        candidates: dict[Hashable, list[Rewriter]] = {}
        self._subjects: dict[Hashable, Patch | tuple[Callable[..., Any], ...]] = {}
        for rewriter in rewriters:
            try:
                found = names.find(rewriter.name)
            except names.NameNotFoundError as err:
                not_found.append(str(err))
                continue
            subject = _subject(rewriter, found)
            key = subject.key if isinstance(subject, Patch) else subject[0]
            self._subjects[key] = subject
            candidates.setdefault(key, []).append(rewriter)
        self._layer = {key: Bound(each) for key, each in most_specific(candidates).items()}
        self.bound = list(self._layer.values())

    def enter(self, undo: ExitStack, context: Callable[[Callable[..., Any]], Any]) -> None:
        """Put them in force, and register with ``undo`` what takes them out again.

        Args:
            undo: Left by the caller on every path.
            context: Makes a rewriter's context from its original function.
        """
        layer: dict[Hashable, Bound] = {}
        subjects = {key: self._subjects[key] for key in self._layer}
        patches = [each for each in subjects.values() if isinstance(each, Patch)]
        for patch in undo.enter_context(applied(patches)):
            bound = layer[patch.key] = self._layer[patch.key]
            bound.context = context(patch.hidden_by(bound))
        for key, functions in subjects.items():
            if not isinstance(functions, Patch):
                bound = self._layer[key]
                # The mode answers a call from inside the rewriter with what the rewriter hides.
                bound.context = context(functions[0])
                layer.update(dict.fromkeys(functions, bound))
        put_in_force(undo, layer)
        if layer and "torch" in sys.modules:
            from enginebay.rewriting import internals, modes, torch_functions

            modes.keep_on(undo)
            undo.enter_context(applied([torch_functions.Checks()]))
            internals.leave_exporters_alone(undo)


def _subject(rewriter: Rewriter, found: names.Found) -> Patch | tuple[Callable[..., Any], ...]:
    """The torch functions by the objects that a mode is handed, or the patch of another one."""
    if isinstance(found.value, type):
        raise RewriterError(
            f'the function rewriter of "{rewriter.name}" names a class',
            hint="use .module for an nn.Module class, or name one of its methods",
        )
    if not callable(found.value) and not hasattr(type(found.value), "__get__"):
        raise RewriterError(
            f'the function rewriter of "{rewriter.name}" names a {type(found.value).__name__}, '
            "not a function, a method or a property"
        )
    return _torch_functions(found) or _patch(found)


def _torch_functions(found: names.Found) -> tuple[Callable[..., Any], ...]:
    """What the torch function mode sees when the function is called; empty for any other one."""
    value = found.value
    if type(value).__module__ == "torch._ops":
        overloads = value.overloads() if hasattr(value, "overloads") else ()
        return (value, *(getattr(value, overload) for overload in overloads))
    if isinstance(value, BuiltinFunctionType):
        return (value,) if (value.__module__ or "").startswith("torch") else ()
    if "TensorBase" not in getattr(getattr(value, "__objclass__", None), "__name__", ""):
        return ()
    if isinstance(value, GetSetDescriptorType):
        return (value.__get__,)
    if isinstance(value, MethodDescriptorType) and found.attribute.startswith("__"):
        return (_operator(value),)
    return (value,)


def _patch(found: names.Found) -> Patch:
    value = found.value
    if isinstance(value, FunctionType) and not found.inherited and "torch" in sys.modules:
        from enginebay.rewriting.torch_functions import TorchFunctionPatch, asks_for_modes

        if asks_for_modes(value):
            return patch_for(found, TorchFunctionPatch)
    return patch_for(found)


@functools.cache
def _operator(method: Callable[..., Any]) -> Callable[..., Any]:
    """The function that a mode sees for an operator: ``remainder`` for ``__mod__``."""
    from enginebay.rewriting.modes import seen_as

    return seen_as(method)
