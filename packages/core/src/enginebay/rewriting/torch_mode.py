"""Interception of torch's C functions and Tensor methods, by one mode for each thread.

Imports torch at its top, since a class cannot wait for its base; the room imports this file where
torch is loaded already.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch._C import (
    _get_function_stack_at,
    _len_torch_function_stack,
    _pop_torch_function_stack as _pop,
    _push_on_torch_function_stack as _push,
)
from torch.overrides import TorchFunctionMode

from enginebay.rewriting import names
from enginebay.rewriting.active_rewriters import thread_rewriters
from enginebay.rewriting.patches import replace_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import ExitStack

    from enginebay.rewriting.active_rewriters import ThreadRewriters

#: The exporters' own work, in torch 2.13: it calls torch functions by the thousand, and none of
#: them is the model's. Another torch may not have one of these, and then only takes longer.
_EXPORTERS_OWN_WORK = (
    "torch.jit._trace._unique_state_dict",
    "torch.onnx._internal.torchscript_exporter.utils._optimize_graph",
    "torch._export.utils._fakify_params_buffers",
    "torch.export.exported_program.ExportedProgram.run_decompositions",
    "torch.onnx._internal.exporter._core._exported_program_to_onnx_program",
)


class RewriteMode(TorchFunctionMode):
    """Calls the rewriter of a torch function instead of it, where the thread has one.

    torch takes a mode off its stack while the handler runs. This one puts itself back around
    rewriters, so that it sees the functions that these call, too.
    """

    def __init__(self, rewriters: ThreadRewriters) -> None:
        super().__init__()
        self._rewriters = rewriters

    # One function, without helpers: the TorchScript exporter records the whole stack for every
    # operator, so each frame of ours costs as much as a call; and the further down a line stands
    # in its function, the longer the exporter takes to find the line's number.
    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        rewriter = self._rewriters.table.get(func)
        if rewriter is None:
            return func(*args, **kwargs) if kwargs else func(*args)
        running = self._rewriters.running
        # A rewriter that calls its own function by name gets the outer rewriter, or the original.
        while rewriter is not None and rewriter in running:
            rewriter = rewriter.outer
        if rewriter is None:
            return func(*args, **(kwargs or {}))
        rewriter.count += 1
        running.add(rewriter)
        _push(self)
        try:
            return rewriter.replacement(rewriter.context, *args, **(kwargs or {}))
        finally:
            _pop()
            running.discard(rewriter)


def intercept(undo: ExitStack) -> None:
    """Intercept the torch functions of this thread until ``undo`` is closed."""
    rewriters = thread_rewriters()
    undo.callback(_release_mode, rewriters)
    rewriters.mode_users += 1
    if rewriters.mode is None:
        rewriters.mode = RewriteMode(rewriters)
        _push(rewriters.mode)


def ignore_exporters(undo: ExitStack) -> None:
    """Intercept no torch function that an exporter calls for itself, until ``undo`` is closed.

    Rewriters are for the model. Besides, interception would cost some per cent of the export.
    """
    replace_functions(
        undo, dict.fromkeys(filter(_is_loaded, _EXPORTERS_OWN_WORK), _without_interception)
    )


def is_on_stack(mode: TorchFunctionMode | None) -> bool:
    """Return True if a mode is on this thread's stack; it is not while it runs an original."""
    depth = _len_torch_function_stack()
    # Without a list, and from the top, where it mostly is: this runs at every rewritten call.
    return any(_get_function_stack_at(index) is mode for index in reversed(range(depth)))


def dispatched_function(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a mode receives for a Tensor method, by calling the method once."""
    probe = _Probe()
    tensor = torch.empty(0)
    for args in ((tensor, tensor), (tensor,)):  # an operator takes two, or one
        with contextlib.suppress(TypeError), probe:
            method(*args)
    return probe.function or method


class _Probe(TorchFunctionMode):
    """Keeps the first function that it receives, and runs none."""

    function: Callable[..., Any] | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.function = self.function or func
        return args[0]


def _is_loaded(name: str) -> bool:
    try:
        names.find(name)
    except names.NameNotFoundError:
        return False
    return True


def _without_interception(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    with _paused():
        return original(*args, **kwargs)


@contextlib.contextmanager
def _paused() -> Iterator[None]:
    """Keep this thread's mode off torch's stack, and the modes above it where they are."""
    rewriters = thread_rewriters()
    mode = rewriters.mode
    above = None if mode is None else _remove(mode)
    if mode is None or above is None:
        yield
        return
    try:
        yield
    finally:
        for _ in above:
            _pop()
        for each in (mode, *above):
            _push(each)
        _remove_unused(rewriters)  # the last context may have been left meanwhile


def _release_mode(rewriters: ThreadRewriters) -> None:
    rewriters.mode_users -= 1
    _remove_unused(rewriters)


def _remove_unused(rewriters: ThreadRewriters) -> None:
    """Remove the thread's mode from torch's stack where no context needs it any more."""
    # A generator that another thread finalises cannot reach the stack of its own. The mode then
    # stays on it, without any rewriter, and the thread's next context uses it again.
    mode = rewriters.mode
    if mode is not None and not rewriters.mode_users and _remove(mode) is not None:
        rewriters.mode = None


def _remove(mode: TorchFunctionMode) -> list[TorchFunctionMode] | None:
    """Remove a mode from this thread's stack, and keep those above it.

    Returns:
        The modes above it, from the lowest; None where the mode is not on the stack.
    """
    stack = [_get_function_stack_at(index) for index in range(_len_torch_function_stack())]
    if mode not in stack:
        return None
    above: list[TorchFunctionMode] = stack[stack.index(mode) + 1 :]
    for _ in (mode, *above):  # torch can only take the top off
        _pop()
    for each in above:
        _push(each)
    return above
