"""Protection of forked processes: a wrapper that a child process inherits cannot be used there.

A fork copies an engine's memory without its threads. A call of the engine, or its destructor, may
then wait for these threads for ever (seen with ncnn, ONNX Runtime and OpenVINO).
"""

from __future__ import annotations

import ctypes
import os
from typing import Protocol
from weakref import WeakValueDictionary


class Owner(Protocol):
    """The owner of an engine: a wrapper."""

    def disown(self) -> None:
        """Refuse all calls and never release the engine."""


#: The wrappers of this process, by id: a subclass may not be hashable.
_wrappers: WeakValueDictionary[int, Owner] = WeakValueDictionary()


def disown_after_fork(wrapper: Owner) -> None:
    """Disown this wrapper in every process that is forked from now on.

    Calls cost nothing more: the copies are marked at the fork.
    """
    _wrappers[id(wrapper)] = wrapper


def _disown_wrappers() -> None:
    for wrapper in tuple(_wrappers.values()):
        wrapper.disown()
        # One reference too many: even at exit the engine's destructor must not run.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(wrapper))
    _wrappers.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_disown_wrappers)
