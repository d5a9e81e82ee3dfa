"""Import torch at its first use, so that rewriters can be listed if torch is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
else:

    class _Torch:
        def __getattr__(self, name):
            import torch

            return getattr(torch, name)

    torch = _Torch()

__all__ = ["LACKING", "torch"]

#: The condition of lowerings that apply only to operators that the engine lacks.
LACKING = ("lacking",)
