"""The rewriters that are active in a thread: one layer for each context that it has entered."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from contextlib import ExitStack

    from torch.overrides import TorchFunctionMode

    from enginebay.rewriting.rewriter import Context, Rewriter


class ActiveRewriter:
    """A rewriter inside a context.

    Attributes:
        rewriter: The declaration.
        outer: The rewriter of an outer context for the same function, or None.
        count: Number of times that it fired.
        context: The first argument of the replacement.
    """

    __slots__ = ("context", "count", "outer", "replacement", "rewriter")

    context: Context | Any  # core's own replacements of torch functions take only the original

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter
        self.replacement = rewriter.replacement
        self.outer: ActiveRewriter | None = None
        self.count = 0

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the replacement."""
        self.count += 1
        return self.replacement(self.context, *args, **kwargs)


class ThreadRewriters:
    """The active rewriters of one thread.

    Attributes:
        table: The rewriter to call for each function: the innermost context's.
        running: The rewriters of torch functions that run at this moment.
        mode: The thread's torch function mode, while a context needs one.
        mode_users: The number of contexts that need it.
    """

    def __init__(self) -> None:
        self.table: dict[Hashable, ActiveRewriter] = {}
        self.running: set[ActiveRewriter] = set()
        self.mode: TorchFunctionMode | None = None
        self.mode_users = 0
        self._layers: list[Mapping[Hashable, ActiveRewriter]] = []

    def add(self, layer: Mapping[Hashable, ActiveRewriter]) -> None:
        """Activate a context's rewriters, over those of the contexts around it."""
        self._layers.append(layer)
        self._rebuild_table()

    def remove(self, layer: Mapping[Hashable, ActiveRewriter]) -> None:
        """Deactivate a context's rewriters."""
        # Not always the innermost: contexts inside generators are left in any order.
        self._layers = [each for each in self._layers if each is not layer]
        self._rebuild_table()

    def _rebuild_table(self) -> None:
        table: dict[Hashable, ActiveRewriter] = {}
        for layer in self._layers:
            for key, rewriter in layer.items():
                rewriter.outer = table.get(key)
                table[key] = rewriter
        self.table = table


class _Local(threading.local):
    # A subclass, whose __init__ runs once in every thread that looks.
    def __init__(self) -> None:
        self.rewriters = ThreadRewriters()


_local = _Local()


def thread_rewriters() -> ThreadRewriters:
    """Return the active rewriters of the calling thread."""
    return _local.rewriters


def activate(undo: ExitStack, layer: Mapping[Hashable, ActiveRewriter]) -> None:
    """Add a layer to the calling thread's, and have ``undo`` remove it, from whatever thread."""
    rewriters = thread_rewriters()
    undo.callback(rewriters.remove, layer)
    rewriters.add(layer)
