"""Interception of torch's C functions and Tensor methods by one torch function mode per thread.

This module imports torch for a base class; it is imported only if torch is already loaded.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from enginebay import torch_private
from enginebay.rewriting.active_rewriters import thread_rewriters
from enginebay.rewriting.dotted_names import NameNotFoundError, find_name
from enginebay.rewriting.patches import replace_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import ExitStack

    from enginebay.rewriting.active_rewriters import ThreadRewriters

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: torch's own functions, since they run at every rewritten call.
_depth, _mode_at, _push, _pop = torch_private.function_mode_stack()


class RewriteMode(TorchFunctionMode):
    """Torch function mode that calls a thread's rewriters instead of torch functions.

    torch removes a mode from the stack while ``__torch_function__`` runs. This mode pushes itself
    again while a rewriter runs, so that functions called by the rewriter are intercepted too.
    """

    def __init__(self, rewriters: ThreadRewriters) -> None:
        super().__init__()
        self._rewriters = rewriters

    # One function without helpers: the TorchScript exporter records the whole stack for every
    # operator, so that each frame costs time. It also takes longer for a line further down in its
    # function, since it searches the line's number from the start.
    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        rewriter = self._rewriters.table.get(func)
        if rewriter is None:
            return func(*args, **kwargs) if kwargs else func(*args)
        running = self._rewriters.running
        # A rewriter that calls its own function by name gets the outer rewriter or the original.
        while rewriter is not None and rewriter in running:
            rewriter = rewriter.outer
        if rewriter is None:
            return func(*args, **(kwargs or {}))
        rewriter.count += 1
        running.add(rewriter)
        _push(self)
        try:
            return rewriter.replacement(rewriter.context, *args, **(kwargs or {}))
        except Exception as err:
            rewriter.rewriter.add_note(err)
            raise
        finally:
            _pop()
            running.discard(rewriter)


def intercept_functions(undo: ExitStack) -> None:
    """Intercept this thread's calls of torch functions until ``undo`` is closed."""
    rewriters = thread_rewriters()
    undo.callback(_release_mode, rewriters)
    rewriters.mode_users += 1
    if rewriters.mode is None:
        rewriters.mode = RewriteMode(rewriters)
        _push(rewriters.mode)


def ignore_exporters(undo: ExitStack) -> None:
    """Until ``undo`` is closed, do not intercept calls in the code of the exporters.

    Rewriters are for the model's calls, and intercepting the exporters' calls would cost a few per
    cent of the export's time.
    """
    replace_functions(
        undo,
        dict.fromkeys(
            filter(_is_loaded, torch_private.exporters_own_functions()), _call_without_mode
        ),
    )


def is_on_stack(mode: TorchFunctionMode | None) -> bool:
    """Return True if a mode is on this thread's stack; torch removes a mode while the mode runs."""
    # Without a list, and from the top, where it mostly is: this runs at every rewritten call.
    return any(_mode_at(index) is mode for index in reversed(range(_depth())))


def dispatched_function(method: Callable[..., object]) -> Callable[..., object]:
    """Call a Tensor method once, and return the function that a mode receives for this call."""
    probe = _Probe()
    tensor = torch.empty(0)
    for args in ((tensor, tensor), (tensor,)):  # an operator takes two, or one
        with contextlib.suppress(TypeError), probe:
            method(*args)
    return probe.function or method


class _Probe(TorchFunctionMode):
    """A mode that stores the first function that it receives, without running any function."""

    function: Callable[..., object] | None = None

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: object = None,
    ) -> object:
        self.function = self.function or func
        return args[0]


def _is_loaded(name: str) -> bool:
    try:
        find_name(name)
    except NameNotFoundError:
        return False
    return True


def _call_without_mode(original: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    with _pause_mode():
        return original(*args, **kwargs)


@contextlib.contextmanager
def _pause_mode() -> Iterator[None]:
    """Inside the ``with`` statement, remove only the RewriteMode from this thread's modes."""
    rewriters = thread_rewriters()
    mode = rewriters.mode
    above = None if mode is None else _remove_from_stack(mode)
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
        _remove_unused_mode(rewriters)  # the last context may have ended in the block


def _release_mode(rewriters: ThreadRewriters) -> None:
    rewriters.mode_users -= 1
    _remove_unused_mode(rewriters)


def _remove_unused_mode(rewriters: ThreadRewriters) -> None:
    # If another thread finalises a generator that holds a context, the context's own stack is out
    # of reach. The mode then stays, without any rewriter, and the next context reuses it.
    mode = rewriters.mode
    if mode is not None and not rewriters.mode_users and _remove_from_stack(mode) is not None:
        rewriters.mode = None


def _remove_from_stack(mode: TorchFunctionMode) -> list[TorchFunctionMode] | None:
    """Remove a mode from this thread's stack, but not the modes above it.

    Returns:
        The modes above this mode, the lowest first; None if the mode is not on the stack.
    """
    stack = [_mode_at(index) for index in range(_depth())]
    if mode not in stack:
        return None
    above: list[TorchFunctionMode] = stack[stack.index(mode) + 1 :]
    for _ in (mode, *above):  # torch can only remove the top
        _pop()
    for each in above:
        _push(each)
    return above
