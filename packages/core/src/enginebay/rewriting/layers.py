"""Which rewriters are in force in a thread: one layer for each context that it has entered."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from contextlib import ExitStack

    from enginebay.rewriting.declaration import Rewriter
    from enginebay.rewriting.modes import RewriteMode


class Bound:
    """A rewriter in force: its context, its count, and the rewriter that it hides.

    Attributes:
        rewriter: The declaration.
        below: The rewriter of an outer context for the same function, or None.
        count: How often it fired.
        context: What the replacement gets as its first argument.
    """

    __slots__ = ("below", "context", "count", "replacement", "rewriter")

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter
        self.replacement = rewriter.replacement
        self.below: Bound | None = None
        self.count = 0
        self.context: Any = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Fire: run the replacement."""
        self.count += 1
        return self.replacement(self.context, *args, **kwargs)


class Layers:
    """The rewriters in force in one thread.

    Attributes:
        table: The rewriter to call for each function: the innermost context's.
        running: The rewriters of torch functions that are at work.
        mode: The torch function mode of the thread, while a context needs one.
        mode_users: How many contexts need it.
    """

    def __init__(self) -> None:
        self.table: dict[Hashable, Bound] = {}
        self.running: set[Bound] = set()
        self.mode: RewriteMode | None = None
        self.mode_users = 0
        self._layers: list[Mapping[Hashable, Bound]] = []

    def add(self, layer: Mapping[Hashable, Bound]) -> None:
        """Put a context's rewriters in force, over those of the contexts around it."""
        self._layers.append(layer)
        self._link()

    def remove(self, layer: Mapping[Hashable, Bound]) -> None:
        """Take a context's rewriters out: not always the top, generators end in any order."""
        self._layers = [each for each in self._layers if each is not layer]
        self._link()

    def _link(self) -> None:
        table: dict[Hashable, Bound] = {}
        for layer in self._layers:
            for key, bound in layer.items():
                bound.below = table.get(key)
                table[key] = bound
        self.table = table


class _Local(threading.local):
    def __init__(self) -> None:
        self.layers = Layers()


_local = _Local()


def current() -> Layers:
    """The layers of the thread that asks."""
    return _local.layers


def put_in_force(undo: ExitStack, layer: Mapping[Hashable, Bound]) -> None:
    """Add a layer to this thread's, and have ``undo`` remove it, from whatever thread."""
    layers = current()
    undo.callback(layers.remove, layer)
    layers.add(layer)
