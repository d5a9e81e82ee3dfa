"""Dictionaries whose content in one thread differs from the content in all other threads."""

from __future__ import annotations

import threading
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from enginebay import torch_private
from enginebay.errors import RewriterError

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values
    from collections.abc import Iterator
    from contextlib import ExitStack

    from torch import nn

#: Held while a thread claims or releases the children of a module, which all threads share.
_lock = threading.Lock()


# It derives from dict only for torch's isinstance checks; the base's storage is never used.
class ThreadDict(MutableMapping[str, object], dict[str, object]):  # type: ignore[metaclass,misc]  # its order of bases works at run time
    """A dictionary with one content for the thread that creates it, and one for all other threads.

    Args:
        base: The content for the other threads.
        own: The content for this thread.

    Attributes:
        users: The number of ``rewrite`` contexts that use the dictionary.
    """

    def __init__(self, base: dict[str, object], own: dict[str, object]) -> None:
        super().__init__()
        self.base = base
        self.own = own
        self.owner = threading.get_ident()
        self.users = 0

    @property
    def _current(self) -> dict[str, object]:
        return self.own if threading.get_ident() == self.owner else self.base

    def __getitem__(self, key: str) -> object:
        return self._current[key]

    def __setitem__(self, key: str, value: object) -> None:
        self._current[key] = value

    def __delitem__(self, key: str) -> None:
        del self._current[key]

    def __contains__(self, key: object) -> bool:
        return key in self._current

    def __iter__(self) -> Iterator[str]:
        return iter(self._current)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._current)

    def __len__(self) -> int:
        return len(self._current)

    def __repr__(self) -> str:
        return repr(self._current)

    def keys(self) -> dict_keys[str, object]:
        """Return a ``dict``'s view of this thread's keys.

        Unlike the view of a MutableMapping, it can be reversed.
        """
        return self._current.keys()

    def values(self) -> dict_values[str, object]:
        """Return a ``dict``'s view of this thread's values."""
        return self._current.values()

    def items(self) -> dict_items[str, object]:
        """Return a ``dict``'s view of this thread's items."""
        return self._current.items()

    def copy(self) -> dict[str, object]:
        """Return this thread's content as a plain dict."""
        return dict(self._current)

    def __reduce_ex__(self, protocol: object) -> tuple[type, tuple[dict[str, object]]]:
        return dict, (self.copy(),)


def claim_children(module: nn.Module, undo: ExitStack) -> dict[str, nn.Module]:
    """Give the calling thread its own dictionary of a module's children; return this dictionary.

    Args:
        module: The module whose children the calling thread replaces.
        undo: An exit stack that the caller must close. After that, all threads share one dictionary
            again. Changes that the calling thread made and did not revert are in this dictionary.

    Raises:
        RewriterError: Another thread is rewriting the module.
    """
    with _lock:
        children: Any = torch_private.children_of(module)
        if not isinstance(children, ThreadDict):
            # A copy of the children for this thread, which alone changes it.
            children = ThreadDict(children, dict(children))
            torch_private.set_children(module, children)
        elif children.owner != threading.get_ident():
            raise RewriterError(
                f"a {type(module).__name__} of this model is being rewritten by another thread",
                hint="rewrite a copy of the model in each thread: copy.deepcopy(model)",
            )
        children.users += 1
        undo.callback(_release_children, module, children)
        own: dict[str, nn.Module] = children.own
        return own


def _release_children(module: nn.Module, claimed: ThreadDict) -> None:
    with _lock:
        claimed.users -= 1
        if claimed.users:
            return
        base, own = claimed.base, claimed.own
        if list(base.items()) != list(own.items()):  # lists, since dicts ignore the order
            base.clear()
            base.update(own)
        children: Any = torch_private.children_of(module)
        if children is claimed:
            torch_private.set_children(module, base)
