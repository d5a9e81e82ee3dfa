"""Function rewriters of one context: torch functions through a mode, others through patches."""

from __future__ import annotations

import functools
import sys
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MethodDescriptorType
from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError
from enginebay.rewriting import names
from enginebay.rewriting.active_rewriters import ActiveRewriter, activate
from enginebay.rewriting.patches import Patch, installed, lock, patch_for
from enginebay.rewriting.selection import most_specific

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from contextlib import ExitStack

    from enginebay.rewriting.rewriter import Context, Lost, Rewriter


class FunctionRewriters:
    """The function rewriters of one context.

    Args:
        rewriters: Those that apply, losers included.
        not_found: Gets one line for each name that no loaded module has.
        lost: Gets the losers, each with its winner.

    Attributes:
        active: The winners, which :meth:`enter` activates.

    Raises:
        RewriterError: Two are equally specific, or a name is not that of a function.
    """

    def __init__(self, rewriters: Iterable[Rewriter], not_found: list[str], lost: Lost) -> None:
        candidates: dict[Hashable, list[Rewriter]] = {}
        # By the function, not by its name: F.gelu and torch._C._nn.gelu are one function.
        self._subjects: dict[Hashable, Patch | tuple[Callable[..., Any], ...]] = {}
        for rewriter in rewriters:
            try:
                with lock:
                    subject = _subject(rewriter, names.find(rewriter.name))
            except names.NameNotFoundError as err:
                not_found.append(str(err))
                continue
            key = subject.key if isinstance(subject, Patch) else subject[0]
            self._subjects[key] = subject
            candidates.setdefault(key, []).append(rewriter)
        winners = most_specific(candidates, lost)
        self._layer = {key: ActiveRewriter(one) for key, one in winners.items()}
        self.active = list(self._layer.values())

    def enter(self, undo: ExitStack, make_context: Callable[[Callable[..., Any]], Context]) -> None:
        """Activate them.

        Args:
            undo: Closed by the caller on every path; takes everything back.
            make_context: Makes a rewriter's context from its original function.
        """
        layer: dict[Hashable, ActiveRewriter] = {}
        subjects = {key: self._subjects[key] for key in self._layer}
        patches = [each for each in subjects.values() if isinstance(each, Patch)]
        for patch in undo.enter_context(installed(patches)):
            rewriter = layer[patch.key] = self._layer[patch.key]
            rewriter.context = make_context(patch.original_for(rewriter))
        for key, functions in subjects.items():
            if not isinstance(functions, Patch):
                rewriter = self._layer[key]
                # Called inside the rewriter, it reaches the mode, which knows what comes next.
                rewriter.context = make_context(functions[0])
                layer.update(dict.fromkeys(functions, rewriter))
        activate(undo, layer)
        # Also where only Python functions are rewritten: an exporter's own work must stay apart.
        if layer and "torch" in sys.modules:
            from enginebay.rewriting import torch_functions, torch_mode

            torch_mode.intercept(undo)
            undo.enter_context(installed([torch_functions.OverrideChecks()]))
            torch_mode.ignore_exporters(undo)


def _subject(rewriter: Rewriter, found: names.Found) -> Patch | tuple[Callable[..., Any], ...]:
    """Return a torch function as the objects that a mode receives, or the patch of another one."""
    if isinstance(found.value, type):
        raise RewriterError(
            f'the function rewriter of "{rewriter.name}" names a class',
            hint="use .module for an nn.Module class, or name one of its methods",
        )
    # Properties and class methods cannot be called as they stand in a class, but are descriptors.
    if not callable(found.value) and not hasattr(type(found.value), "__get__"):
        raise RewriterError(
            f'the function rewriter of "{rewriter.name}" names a {type(found.value).__name__}, '
            "not a function, a method or a property"
        )
    return _torch_functions(found) or _patch(found)


def _torch_functions(found: names.Found) -> tuple[Callable[..., Any], ...]:
    """Return the objects that a mode receives for a torch function; empty for any other one."""
    value = found.value
    # torch.ops.my_ops.nms, whose overloads a model may call too: torch.ops.my_ops.nms.default.
    if type(value).__module__ == "torch._ops":
        overloads = value.overloads() if hasattr(value, "overloads") else ()
        return (value, *(getattr(value, overload) for overload in overloads))
    # Another C function, such as math.erf, passes itself to no mode: its attribute is patched.
    if isinstance(value, BuiltinFunctionType):
        return (value,) if (value.__module__ or "").startswith("torch") else ()
    # A Tensor's methods and properties in C belong to torch._C.TensorBase.
    if "TensorBase" not in getattr(getattr(value, "__objclass__", None), "__name__", ""):
        return ()
    if isinstance(value, GetSetDescriptorType):
        return (value.__get__,)  # a mode receives a property's getter
    if isinstance(value, MethodDescriptorType) and found.attribute.startswith("__"):
        return (_operator(value),)
    return (value,)


def _patch(found: names.Found) -> Patch:
    value = found.value
    if isinstance(value, FunctionType) and not found.inherited and "torch" in sys.modules:
        from enginebay.rewriting.torch_functions import TorchFunctionPatch, checks_for_modes

        if checks_for_modes(value):
            return patch_for(found, TorchFunctionPatch)
    return patch_for(found)


@functools.cache
def _operator(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a mode receives for an operator: ``remainder`` for ``__mod__``."""
    from enginebay.rewriting.torch_mode import dispatched_function

    return dispatched_function(method)
