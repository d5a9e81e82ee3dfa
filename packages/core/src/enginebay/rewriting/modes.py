"""Interception of torch functions. The one file of the room that imports torch at its top."""

from __future__ import annotations

import contextlib
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _pop_torch_function_stack as _switch_off
from torch._C import _push_on_torch_function_stack as _switch_on
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from enginebay.rewriting.layers import current
from enginebay.rewriting.python_functions import unpatched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
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

    The handler is one function, and calls what it stands for directly: the TorchScript exporter
    notes the whole stack for every operator, so each frame of ours costs as much as a call.
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
            bound.count += 1
            self._running.add(bound)
            _switch_on(self)
            try:
                return bound.replacement(bound.context, *args, **(kwargs or {}))
            finally:
                _switch_off()
                self._running.discard(bound)
        if type(func) is FunctionType and (body := self._body(func, types)) is not None:
            self._passing.add(body)
            _switch_on(self)
            try:
                return body(*args, **(kwargs or {}))
            finally:
                _switch_off()
                self._passing.discard(body)
        return func(*args, **kwargs) if kwargs else func(*args)

    def _body(self, func: FunctionType, types: Any) -> Callable[..., Any] | None:
        """What runs a Python function of torch so that what it calls is intercepted.

        Calling it with the mode on would come straight back here, since it asks for modes first;
        so its body runs through a copy that does not ask. Two cases run plainly: a tensor
        subclass has a say of its own (``types``), and a Tensor method that calls ``super()``
        comes back under its own name.
        """
        func = unpatched(func)
        body = self._bodies.get(func)
        if body is None:
            body = self._bodies[func] = _without_checks(func)
        plainly = body in self._passing or any(each is not torch.Tensor for each in types)
        return None if plainly else body


def keep_on(undo: ExitStack) -> None:
    """Intercept the torch functions of this thread until ``undo`` is left."""
    layers = current()
    undo.callback(_leave, layers)
    layers.mode_users += 1
    if layers.mode is None:
        layers.mode = RewriteMode(layers)
        _switch_on(layers.mode)


def _leave(layers: Layers) -> None:
    layers.mode_users -= 1
    _drop_unused(layers)


def _drop_unused(layers: Layers) -> None:
    """Take the thread's mode off torch's stack where no context needs it any more.

    A generator that another thread finalises cannot reach the stack of its own. The mode then
    stays there, without any rewriter, and the thread's next context takes it over.
    """
    if layers.mode is None or layers.mode_users:
        return
    above = _take_off(layers.mode)
    if above is not None:
        layers.mode = None
        _put_on(above)


@contextlib.contextmanager
def switched_off() -> Iterator[None]:
    """Have no torch function of this thread intercepted for a while."""
    layers = current()
    mode = layers.mode
    above = None if mode is None else _take_off(mode)
    if mode is None or above is None:
        yield
        return
    _put_on(above)
    try:
        yield
    finally:
        for _ in above:
            _switch_off()
        _put_on([mode, *above])
        _drop_unused(layers)  # the last context may have been left meanwhile


def _take_off(mode: RewriteMode) -> list[TorchFunctionMode] | None:
    """Take a mode and those above it off torch's stack; None where it is not on it.

    Returns:
        Those above it, from the lowest.
    """
    stack: list[TorchFunctionMode] = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]  # torch has no types here
    if mode not in stack:
        return None
    above = stack[stack.index(mode) + 1 :]
    for _ in (mode, *above):
        _switch_off()
    return above


def _put_on(modes: Iterable[TorchFunctionMode]) -> None:
    for each in modes:
        _switch_on(each)


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
