"""Interception of torch functions. The one file of the room that imports torch at its top."""

from __future__ import annotations

import contextlib
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode_stack,
    _pop_mode,
    _push_mode,
)

from enginebay.rewriting.layers import current
from enginebay.rewriting.python_functions import unpatched

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from enginebay.rewriting.layers import Bound, Layers

#: What torch's own Python functions ask before anything else. Whoever asks is intercepted.
CHECKS = frozenset(
    ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
)


class RewriteMode(TorchFunctionMode):
    """Hands every torch function of one thread to its rewriter, if it has one.

    torch switches a mode off while its handler runs. This one switches itself on again around
    rewriters and around torch's Python functions, so that what these call is seen too.
    """

    def __init__(self, layers: Layers) -> None:
        super().__init__()
        self._layers = layers
        self._running: set[Bound] = set()
        self._passing: set[Callable[..., Any]] = set()
        self._bodies: dict[Callable[..., Any], Callable[..., Any]] = {}

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        bound = self._layers.table.get(func)
        # Inside its own rewriter a function is what the rewriter hides.
        while bound is not None and bound in self._running:
            bound = bound.below
        if bound is not None:
            return self._rewrite(bound, args, kwargs or {})
        if type(func) is FunctionType:
            return self._pass_through(unpatched(func), types, args, kwargs or {})
        return func(*args, **kwargs) if kwargs else func(*args)

    def _rewrite(self, bound: Bound, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._running.add(bound)
        try:
            with self:
                return bound(*args, **kwargs)
        finally:
            self._running.discard(bound)

    def _pass_through(
        self, func: FunctionType, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a Python function of torch so that what it calls is intercepted.

        Calling it with the mode on would come straight back here, since it asks for modes first;
        so its body runs through a copy that does not ask. Two cases run plainly: a tensor
        subclass has a say of its own (``types``), and a Tensor method that calls ``super()``
        comes back under its own name.
        """
        if func in self._passing or any(each is not torch.Tensor for each in types):
            return func(*args, **kwargs)
        body = self._bodies.get(func)
        if body is None:
            body = self._bodies[func] = _without_checks(func)
        self._passing.add(func)
        try:
            with self:
                return body(*args, **kwargs)
        finally:
            self._passing.discard(func)


def keep_on(undo: ExitStack) -> None:
    """Intercept the torch functions of this thread until ``undo`` is left."""
    layers = current()
    undo.callback(_leave, layers)
    layers.mode_users += 1
    if layers.mode is None:
        layers.mode = RewriteMode(layers)
        _push_mode(layers.mode)  # type: ignore[no-untyped-call]  # torch has no types here


def _leave(layers: Layers) -> None:
    """Take the thread's mode off torch's stack, from under other modes where need be.

    A generator that another thread finalises cannot reach the stack of its own. The mode then
    stays there, without any rewriter, and the thread's next context takes it over.
    """
    layers.mode_users -= 1
    stack = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]  # see above
    if layers.mode_users or layers.mode not in stack:
        return
    above: list[TorchFunctionMode] = []
    while (top := _pop_mode()) is not layers.mode:  # type: ignore[no-untyped-call]  # see above
        above.append(top)
    layers.mode = None
    for each in reversed(above):
        _push_mode(each)  # type: ignore[no-untyped-call]  # see above


def _without_checks(func: FunctionType) -> FunctionType:
    """A copy that does not ask, nor do the functions that it closes over.

    ``max_pool2d`` chooses between two bodies in its closure, and these ask in its name.
    """
    cells = tuple(
        CellType(_with_cells(inner, inner.__closure__))
        if type(inner := cell.cell_contents) is FunctionType and inner is not func
        else cell
        for cell in func.__closure__ or ()
    )
    return _with_cells(func, cells)


def _with_cells(func: FunctionType, cells: tuple[CellType, ...] | None) -> FunctionType:
    names = func.__globals__ | dict.fromkeys(CHECKS, _no)
    copy = FunctionType(func.__code__, names, func.__name__, func.__defaults__, cells)
    copy.__kwdefaults__ = func.__kwdefaults__
    return copy


def asks_for_modes(function: FunctionType) -> bool:
    """Whether a Python function hands itself to modes, as torch's do."""
    return not CHECKS.isdisjoint(function.__code__.co_names)


def _no(*_: Any) -> bool:
    return False


def seen_as(method: Callable[..., Any]) -> Callable[..., Any]:
    """The function that a mode is handed when a Tensor method is called."""
    probe = _Probe()
    tensor = torch.empty(0)
    for args in ((tensor, tensor), (tensor,)):
        with contextlib.suppress(TypeError), probe:
            method(*args)
    return probe.seen or method


class _Probe(TorchFunctionMode):
    """Notes the first function that is called, and runs none."""

    seen: Callable[..., Any] | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.seen = self.seen or func
        return args[0]
