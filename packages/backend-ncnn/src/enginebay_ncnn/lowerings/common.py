"""Import torch at its first use, so that rewriters can be listed if torch is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors import lazy_module

if TYPE_CHECKING:
    import torch
else:
    torch = lazy_module("torch")

__all__ = ["LACKING", "torch"]

#: The condition of lowerings that apply only to operators that the engine lacks.
LACKING = ("lacking",)
