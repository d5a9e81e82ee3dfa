"""A module's dictionaries as one thread sees them, while every other thread sees what was there."""

from __future__ import annotations

import threading
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

    from torch import nn

_lock = threading.Lock()


# A dict for torch, which asks for one here and there; its own storage is never used.
class ThreadDict(MutableMapping[str, Any], dict[str, Any]):  # type: ignore[metaclass,misc]  # its order of bases works at run time
    """A dictionary with two contents: one for the thread that makes it, one for the others.

    Args:
        base: What the other threads see; stays as it is.
        own: What this thread sees and writes to.

    Attributes:
        users: The contexts that need it.
    """

    def __init__(self, base: dict[str, Any], own: dict[str, Any]) -> None:
        super().__init__()
        self.base = base
        self.own = own
        self.owner = threading.get_ident()
        self.users = 0

    @property
    def _seen(self) -> dict[str, Any]:
        return self.own if threading.get_ident() == self.owner else self.base

    def __getitem__(self, key: str) -> Any:
        return self._seen[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._seen[key] = value

    def __delitem__(self, key: str) -> None:
        del self._seen[key]

    def __contains__(self, key: object) -> bool:
        return key in self._seen

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def __repr__(self) -> str:
        return repr(self._seen)

    def keys(self) -> Any:
        """A view of a plain dict: those of the base class have no order from behind."""
        return self._seen.keys()

    def values(self) -> Any:
        """As :meth:`keys`."""
        return self._seen.values()

    def items(self) -> Any:
        """As :meth:`keys`."""
        return self._seen.items()

    def copy(self) -> dict[str, Any]:
        """A plain dict of what this thread sees."""
        return dict(self._seen)

    def __reduce_ex__(self, protocol: object) -> Any:
        return dict, (self.copy(),)


def claim(module: nn.Module, undo: ExitStack) -> dict[str, nn.Module]:
    """Return the children of a module as this thread alone sees them.

    Args:
        module: The module.
        undo: Closed by the caller; what has been changed by then, other than replacements that
            have been put back, other threads see from there on.

    Raises:
        RewriterError: A context of another thread has claimed the module.
    """
    with _lock:
        found: Any = module._modules
        if not isinstance(found, ThreadDict):
            found = vars(module)["_modules"] = ThreadDict(found, dict(found))
        elif found.owner != threading.get_ident():
            raise RewriterError(
                f"a {type(module).__name__} of this model is being rewritten by another thread",
                hint="rewrite a copy of the model in each thread: copy.deepcopy(model)",
            )
        found.users += 1
        undo.callback(_release, module, found)
        own: dict[str, nn.Module] = found.own
        return own


def _release(module: nn.Module, claimed: ThreadDict) -> None:
    with _lock:
        claimed.users -= 1
        if claimed.users:
            return
        base, own = claimed.base, claimed.own
        if list(base.items()) != list(own.items()):
            base.clear()
            base.update(own)
        if vars(module)["_modules"] is claimed:
            vars(module)["_modules"] = base
