"""Protection of forked processes, which cannot use the wrappers of their parent process.

A fork copies an engine's memory without the engine's threads. If the forked process calls or
destroys the engine, the engine may wait for these threads forever, as ncnn, ONNX Runtime and
OpenVINO do.
"""

from __future__ import annotations

import ctypes
import os
from typing import Protocol
from weakref import WeakValueDictionary


class Owner(Protocol):
    """Protocol of a wrapper, which owns an engine."""

    def disown(self) -> None:
        """Refuse all further calls, and never release the engine."""


#: ``id`` of a wrapper → wrapper, since the class of a wrapper may not be hashable.
_wrappers: WeakValueDictionary[int, Owner] = WeakValueDictionary()


def disown_after_fork(wrapper: Owner) -> None:
    """Call ``disown()`` on the copy of the wrapper in every process that is forked from now on."""
    # At the fork, so that the wrapper need not compare process ids in each call.
    _wrappers[id(wrapper)] = wrapper


def _disown_wrappers() -> None:
    for wrapper in tuple(_wrappers.values()):
        wrapper.disown()
        # With an extra reference, the engine's destructor does not even run at the process's end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(wrapper))
    _wrappers.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_disown_wrappers)
