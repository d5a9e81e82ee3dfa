"""Forks: a wrapper that a child process inherits is refused there, and its engine left alone.

A fork copies the memory of an engine without its threads. A call may then wait for them for ever,
and so may the engine's destructor (ncnn, and ONNX Runtime and OpenVINO).
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


#: The wrappers of this process, by id: a subclass may have taken their hash away.
_wrappers: WeakValueDictionary[int, Owner] = WeakValueDictionary()


def watch(wrapper: Owner) -> None:
    """Refuse this wrapper in every process that is forked from now on.

    Nothing is checked when a wrapper is called: the fork itself marks its copies.
    """
    _wrappers[id(wrapper)] = wrapper


def _disown() -> None:
    for wrapper in tuple(_wrappers.values()):
        wrapper.disown()
        # Not even the end of the process may free it, which would call the engine's destructor.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(wrapper))
    _wrappers.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_disown)
