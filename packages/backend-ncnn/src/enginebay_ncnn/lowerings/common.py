"""torch, imported at its first use: rewriters are listed where it is not installed."""

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

#: Only for engines that list their operators: a file of ONNX is made without these lowerings.
LACKING = ("lacking",)
