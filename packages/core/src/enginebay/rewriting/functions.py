"""The function rewriters of one ``rewrite`` context.

A torch function mode or a patch intercepts the calls of a function, and calls its rewriter.
"""

from __future__ import annotations

import functools
import sys
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MethodDescriptorType
from typing import TYPE_CHECKING

from enginebay import torch_private
from enginebay.errors import RewriterError
from enginebay.rewriting.active_rewriters import ActiveRewriter, activate_layer
from enginebay.rewriting.dotted_names import NameNotFoundError, ResolvedName, find_name
from enginebay.rewriting.patches import Patch, get_patch, install_patches, patch_lock
from enginebay.rewriting.selection import select_for_each

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from contextlib import ExitStack

    from enginebay.rewriting.rewriter import MakeContext, Rewriter


class FunctionRewriters:
    """The function rewriters of one ``rewrite`` context.

    Args:
        rewriters: The function rewriters whose conditions hold.

    Attributes:
        selection: The selected rewriters, and why the others are not used.
        active: The selected rewriters, which :meth:`enter` activates.

    Raises:
        RewriterError: Two rewriters are equally specific, or a name does not refer to a function.
    """

    def __init__(self, rewriters: Iterable[Rewriter]) -> None:
        not_found = []
        candidates: dict[Hashable, list[Rewriter]] = {}
        # By function and not by name: F.gelu and torch._C._nn.gelu are the same function.
        self._subjects: dict[Hashable, Patch | tuple[Callable[..., object], ...]] = {}
        for rewriter in rewriters:
            try:
                with patch_lock:
                    subject = _resolve_subject(rewriter, find_name(rewriter.name, rewriter.subject))
            except NameNotFoundError as err:
                not_found.append(str(err))
                continue
            key = subject.key if isinstance(subject, Patch) else subject[0]
            self._subjects[key] = subject
            candidates.setdefault(key, []).append(rewriter)
        winners, self.selection = select_for_each(candidates, not_found)
        self._layer = {key: ActiveRewriter(one) for key, one in winners.items()}
        self.active = list(self._layer.values())

    def enter(self, undo: ExitStack, make_context: MakeContext) -> None:
        """Activate the rewriters.

        Args:
            undo: An exit stack that the caller must close; it reverts all changes.
            make_context: Takes an original function, and returns the rewriter's ``ctx``.
        """
        layer: dict[Hashable, ActiveRewriter] = {}
        subjects = {key: self._subjects[key] for key in self._layer}
        patches = [each for each in subjects.values() if isinstance(each, Patch)]
        for patch in undo.enter_context(install_patches(patches)):
            rewriter = layer[patch.key] = self._layer[patch.key]
            rewriter.context = make_context(patch.original_for(rewriter))
        for key, functions in subjects.items():
            if not isinstance(functions, Patch):
                rewriter = self._layer[key]
                # A call of it inside the rewriter reaches the mode, which calls the next rewriter.
                rewriter.context = make_context(functions[0])
                layer.update(dict.fromkeys(functions, rewriter))
        activate_layer(undo, layer)
        # Even if only Python functions are rewritten: ignore_exporters needs the mode.
        if layer and "torch" in sys.modules:
            from enginebay.rewriting import torch_functions, torch_mode

            torch_mode.intercept_functions(undo)
            undo.enter_context(install_patches([torch_functions.OverrideChecks()]))
            torch_mode.ignore_exporters(undo)


def _resolve_subject(
    rewriter: Rewriter, resolved: ResolvedName
) -> Patch | tuple[Callable[..., object], ...]:
    """Return the functions that a torch function mode receives for calls of a function.

    If torch does not pass the calls to a mode, return a patch instead.
    """
    if isinstance(resolved.value, type):
        raise RewriterError(
            f'a function rewriter cannot replace the class "{rewriter.name}"',
            hint="use .module for an nn.Module class, or pass the name of a method",
        )
    # Properties and class methods are not callable in a class's __dict__, but are descriptors.
    if not callable(resolved.value) and not hasattr(type(resolved.value), "__get__"):
        raise RewriterError(
            f'a function rewriter cannot replace "{rewriter.name}": expected a function, a method '
            f"or a property, found an object of type {type(resolved.value).__name__}"
        )
    return _find_mode_functions(resolved) or _get_subject_patch(resolved)


def _find_mode_functions(resolved: ResolvedName) -> tuple[Callable[..., object], ...]:
    """Return the functions that a torch function mode receives when the resolved object is called.

    The result is empty if torch does not pass such calls to a mode.
    """
    value = resolved.value
    # For torch.ops.my_ops.nms a model may call an overload: torch.ops.my_ops.nms.default.
    if torch_private.is_from_ops(value):
        overloads = value.overloads() if hasattr(value, "overloads") else ()
        return (value, *(getattr(value, overload) for overload in overloads))
    # Other C functions, such as math.erf, do not call modes: their attribute is patched.
    if isinstance(value, BuiltinFunctionType):
        return (value,) if (value.__module__ or "").startswith("torch") else ()
    if not torch_private.is_tensor_attribute(value):
        return ()
    if isinstance(value, GetSetDescriptorType):
        return (value.__get__,)  # a mode receives a property's getter
    if isinstance(value, MethodDescriptorType) and resolved.attribute.startswith("__"):
        return (_find_dispatched(value),)
    return (value,)


def _get_subject_patch(resolved: ResolvedName) -> Patch:
    value = resolved.value
    if isinstance(value, FunctionType) and not resolved.inherited and "torch" in sys.modules:
        from enginebay.rewriting.torch_functions import TorchFunctionPatch, checks_for_modes

        if checks_for_modes(value):
            return get_patch(resolved, TorchFunctionPatch)
    return get_patch(resolved)


@functools.cache
def _find_dispatched(method: Callable[..., object]) -> Callable[..., object]:
    """Return what a TorchFunctionMode receives for a method: ``remainder`` for ``__mod__``."""
    from enginebay.rewriting.torch_mode import dispatched_function

    return dispatched_function(method)
