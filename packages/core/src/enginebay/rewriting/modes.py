"""Interception of torch functions. The one file of the room that imports torch at its top."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _get_function_stack_at, _len_torch_function_stack
from torch._C import _pop_torch_function_stack as _switch_off
from torch._C import _push_on_torch_function_stack as _switch_on
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from enginebay.rewriting.layers import current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import ExitStack

    from enginebay.rewriting.layers import Layers


class RewriteMode(TorchFunctionMode):
    """Hands every torch function of one thread to its rewriter, if it has one.

    torch switches a mode off while its handler runs. This one switches itself on again around
    rewriters, so that what these call is seen too.

    The handler is one function, and calls what it stands for directly: the TorchScript exporter
    notes the whole stack for every operator, so each frame of ours costs as much as a call, and
    the further down a line stands in its function, the longer the exporter counts up to it.
    """

    def __init__(self, layers: Layers) -> None:
        super().__init__()
        self._layers = layers

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        bound = self._layers.table.get(func)
        if bound is None:
            return func(*args, **kwargs) if kwargs else func(*args)
        running = self._layers.running
        # Inside its own rewriter a function is what the rewriter hides.
        while bound is not None and bound in running:
            bound = bound.below
        if bound is None:
            return func(*args, **(kwargs or {}))
        bound.count += 1
        running.add(bound)
        _switch_on(self)
        try:
            return bound.replacement(bound.context, *args, **(kwargs or {}))
        finally:
            _switch_off()
            running.discard(bound)


def is_on(mode: RewriteMode | None) -> bool:
    """Whether a mode is in force in this thread; it is not while it runs an original."""
    depth = _len_torch_function_stack()
    return any(_get_function_stack_at(index) is mode for index in reversed(range(depth)))


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
