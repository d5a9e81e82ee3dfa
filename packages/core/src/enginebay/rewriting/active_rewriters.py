"""The active rewriters of a thread.

Each ``rewrite`` context adds one layer, which is a mapping: key of a function → active rewriter.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from contextlib import ExitStack

    from torch.overrides import TorchFunctionMode

    from enginebay.rewriting.rewriter import Context, Rewriter


class ActiveRewriter:
    """A rewriter that is active in a ``rewrite`` context.

    Attributes:
        rewriter: The declared rewriter.
        outer: The rewriter of the same function in the nearest enclosing ``rewrite`` context; None
            if there is none.
        count: The number of times that the replacement was used.
        context: ``ctx``, the first argument of the replacement.
    """

    __slots__ = ("context", "count", "outer", "replacement", "rewriter")

    context: Context | Any  # for replace_functions it is the original function

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter
        self.replacement = rewriter.replacement
        self.outer: ActiveRewriter | None = None
        self.count = 0

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        """Call the replacement with ``ctx`` and the arguments, and return the result."""
        self.count += 1
        try:
            return self.replacement(self.context, *args, **kwargs)
        except Exception as err:
            self.rewriter.add_note(err)
            raise


class ThreadRewriters:
    """The active rewriters of one thread.

    Attributes:
        table: Key of a function → its rewriter in the innermost ``rewrite`` context that has one.
            The key is :attr:`Patch.key`, or a function that the torch function mode receives.
        running: The rewriters of torch functions that are running now. A call inside such a
            rewriter does not start the same rewriter again.
        mode: The torch function mode that intercepts this thread's calls; None if not installed.
        mode_users: The number of ``rewrite`` contexts that use ``mode``.
    """

    def __init__(self) -> None:
        self.table: dict[Hashable, ActiveRewriter] = {}
        self.running: set[ActiveRewriter] = set()
        self.mode: TorchFunctionMode | None = None
        self.mode_users = 0
        self._layers: list[Mapping[Hashable, ActiveRewriter]] = []

    def add_layer(self, layer: Mapping[Hashable, ActiveRewriter]) -> None:
        """Activate ``layer``, the rewriters of a context, with priority over earlier layers."""
        self._layers.append(layer)
        self._rebuild_table()

    def remove_layer(self, layer: Mapping[Hashable, ActiveRewriter]) -> None:
        """Deactivate ``layer``, the rewriters of a context."""
        # Not always the innermost: contexts inside generators end in any order.
        self._layers = [each for each in self._layers if each is not layer]
        self._rebuild_table()

    def _rebuild_table(self) -> None:
        table: dict[Hashable, ActiveRewriter] = {}
        for layer in self._layers:
            for key, rewriter in layer.items():
                rewriter.outer = table.get(key)
                table[key] = rewriter
        self.table = table


class _ThreadState(threading.local):
    def __init__(self) -> None:  # runs once in every thread that reads an attribute
        self.rewriters = ThreadRewriters()


_thread_state = _ThreadState()


def thread_rewriters() -> ThreadRewriters:
    """Return the active rewriters of the calling thread."""
    return _thread_state.rewriters


def activate_layer(undo: ExitStack, layer: Mapping[Hashable, ActiveRewriter]) -> None:
    """Activate ``layer``, a context's rewriters, in this thread until ``undo`` is closed."""
    rewriters = thread_rewriters()
    undo.callback(rewriters.remove_layer, layer)
    rewriters.add_layer(layer)
