"""Layers and modules of a package of one's own, as a user would install it."""

from __future__ import annotations

import os
from typing import Any

import ncnn
import numpy as np
import torch
from torch import nn


class Decode(nn.Module):
    """What a model calls."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1


class DecodeLayer(ncnn.Layer):
    """What ncnn runs in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.one_blob_only = True

    def forward(self, bottom: ncnn.Mat, top: ncnn.Mat, option: Any) -> int:
        top.clone_from(ncnn.Mat(np.array(bottom) * 2 + 1), option.blob_allocator)
        return 0


class CrashingLayer(DecodeLayer):
    """One with a mistake that ends the process."""

    def forward(self, bottom: ncnn.Mat, top: ncnn.Mat, option: Any) -> int:
        del bottom, top, option
        os.abort()
