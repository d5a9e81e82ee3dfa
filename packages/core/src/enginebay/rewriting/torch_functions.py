"""Interception of torch functions written in Python, such as ``torch.nn.functional.layer_norm``.

Such a function first checks for a torch function mode; if there is one, the function passes itself
to the mode. While the mode runs, torch removes it from the stack, so that the mode misses the calls
in the function's body, such as ``F.scaled_dot_product_attention`` in
``F.multi_head_attention_forward``. Inside a ``rewrite`` context these checks therefore return False
for the mode of this package: the function runs directly, and the mode receives the calls in the
body. A function that has a rewriter is patched like any other Python function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.overrides import (
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)

from enginebay import torch_private
from enginebay.rewriting.active_rewriters import thread_rewriters
from enginebay.rewriting.patches import CodePatch, Patch
from enginebay.rewriting.torch_mode import RewriteMode, is_on_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FunctionType

    from enginebay.rewriting.active_rewriters import ActiveRewriter

#: The modules with such functions. Checks in other modules must not change, such as the one by
#: which ``nn.MultiheadAttention`` selects its fast path.
_MODULES = torch_private.modules_with_override_checks()

#: Bound once, since they are used at every call of a function that checks for overrides.
_mode_depth, _mode_at = torch_private.function_mode_stack()[:2]
_is_enabled = torch_private.torch_function_check()
_DISABLED = torch_private.disabled_torch_function()


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
    return bool(checks) and any(function.__globals__ is vars(module) for module in _MODULES)


def _replace_checks(checks: dict[str, Callable[..., bool]]) -> None:
    for module in _MODULES:
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
    depth = _mode_depth()
    return depth > 0 and type(_mode_at(depth - 1)) is RewriteMode


def _has_override(values: Iterable[object]) -> bool:
    """Return True if a value's class has its own ``__torch_function__``; modes are ignored."""
    return any(_overrides_functions(type(value)) for value in values) and _is_enabled()


def _overrides_functions(kind: type) -> bool:
    if kind is Tensor or kind is nn.Parameter:  # fast path for nearly all calls
        return False
    handler = getattr(kind, "__torch_function__", None)
    return handler is not None and handler is not _DISABLED


#: torch's check and our replacement, by name.
_CHECKS: dict[str, tuple[Callable[..., bool], Callable[..., bool]]] = {
    "has_torch_function": (has_torch_function, _has_torch_function),
    "has_torch_function_unary": (has_torch_function_unary, _has_torch_function_unary),
    "has_torch_function_variadic": (has_torch_function_variadic, _has_torch_function_variadic),
}

# Inside a context torch.jit.script finds our checks in these modules; it must compile them to the
# same operator as torch's checks.
for _, _ours in _CHECKS.values():
    torch_private.register_script_builtin(_ours, "aten::has_torch_function")
