"""Interception of torch functions written in Python, such as ``torch.nn.functional.layer_norm``.

Such a function first checks for a torch function mode; if there is one, the function passes itself
to the mode. While the mode runs, torch removes it from the stack, so that the mode misses the calls
in the function's body, such as ``F.scaled_dot_product_attention`` in
``F.multi_head_attention_forward``. Inside a ``rewrite`` context these checks therefore return False
for the mode of this package: the function runs directly, and the mode receives the calls in the
body. A function that has a rewriter is patched like any other Python function.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

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

from enginebay.rewriting.active_rewriters import thread_rewriters
from enginebay.rewriting.patches import CodePatch, Patch
from enginebay.rewriting.torch_mode import RewriteMode, is_on_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FunctionType

    from enginebay.rewriting.active_rewriters import ActiveRewriter

#: The modules with such functions, in torch 2.13. Checks in other modules must not change, such as
#: the one by which ``nn.MultiheadAttention`` selects its fast path.
_MODULES = (
    "torch.functional",
    "torch.nn.functional",
    "torch._tensor",
    "torch._lowrank",
    "torch._lobpcg",
)


class TorchFunctionPatch(CodePatch):
    """The patch of a torch function that is written in Python."""

    def original_for(self, rewriter: ActiveRewriter) -> Callable[..., object]:  # noqa: ARG002  # the same for each
        """Return the patched function, whose :meth:`call` skips rewriters that are running."""
        return self.function

    def call(self, /, *args: object, **kwargs: object) -> object:
        """Call this thread's innermost rewriter that is not running yet, or else the original."""
        thread = thread_rewriters()
        rewriter = thread.table.get(self.key)
        while rewriter is not None and rewriter in thread.running:
            rewriter = rewriter.outer
        # The mode is not on the stack while it calls an original, and during the exporters' own
        # work, which must not be rewritten.
        if rewriter is None or not is_on_stack(thread.mode):
            return self.original(*args, **kwargs)
        thread.running.add(rewriter)
        try:
            return rewriter(*args, **kwargs)
        finally:
            thread.running.discard(rewriter)


class OverrideChecks(Patch):
    """Replaces torch's checks for overrides, such as ``has_torch_function``.

    The replacements ignore torch function modes if the innermost mode is a RewriteMode.
    """

    def __init__(self) -> None:
        super().__init__(("torch.overrides", "has_torch_function"))

    def install(self) -> None:
        """Replace the checks in torch's modules that define functions in Python (``_MODULES``)."""
        _replace_checks({name: ours for name, (_, ours) in _CHECKS.items()})

    def uninstall(self) -> None:
        """Restore ``has_torch_function`` and torch's other checks for overrides."""
        _replace_checks({name: original for name, (original, _) in _CHECKS.items()})


def checks_for_modes(function: FunctionType) -> bool:
    """Return True for a torch function in Python that passes itself to torch function modes."""
    checks = _CHECKS.keys() & function.__code__.co_names
    return bool(checks) and function.__globals__.get("__name__") in _MODULES


def _replace_checks(checks: dict[str, Callable[..., bool]]) -> None:
    for module in map(sys.modules.__getitem__, _MODULES):
        for name in checks.keys() & vars(module):
            setattr(module, name, checks[name])


def _has_torch_function(values: Iterable[object]) -> bool:
    return _has_override(values) if _our_mode_is_innermost() else has_torch_function(values)


def _has_torch_function_unary(value: object) -> bool:
    return _has_override((value,)) if _our_mode_is_innermost() else has_torch_function_unary(value)


def _has_torch_function_variadic(*values: object) -> bool:
    return (
        _has_override(values) if _our_mode_is_innermost() else has_torch_function_variadic(*values)
    )


def _our_mode_is_innermost() -> bool:
    depth = _len_torch_function_stack()
    return depth > 0 and type(_get_function_stack_at(depth - 1)) is RewriteMode


def _has_override(values: Iterable[object]) -> bool:
    """Return True if a value's class has its own ``__torch_function__``; modes are ignored."""
    return (
        any(_overrides_functions(type(value)) for value in values) and _is_torch_function_enabled()
    )


def _overrides_functions(kind: type) -> bool:
    if kind is Tensor or kind is nn.Parameter:  # fast path for nearly all calls
        return False
    handler = getattr(kind, "__torch_function__", None)
    return handler is not None and handler is not _disabled_torch_function_impl


#: torch's check and our replacement, by name.
_CHECKS: dict[str, tuple[Callable[..., bool], Callable[..., bool]]] = {
    "has_torch_function": (has_torch_function, _has_torch_function),
    "has_torch_function_unary": (has_torch_function_unary, _has_torch_function_unary),
    "has_torch_function_variadic": (has_torch_function_variadic, _has_torch_function_variadic),
}

# Inside a context torch.jit.script finds our checks in these modules; it must compile them to the
# same operator as torch's checks.
for _, _ours in _CHECKS.values():
    _register_builtin(_ours, "aten::has_torch_function")
