"""Sensible inputs: sound, pictures, words and numbers, always the same for the same seed."""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec
import numpy as np


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the array of an input is drawn; files.toml explains each field."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    fill: Literal[
        "normal", "uniform", "integers", "constant", "choice", "onehot", "audio", "image", "text"
    ] = "normal"
    mean: float = 0.0
    std: float = 1.0
    low: float = 0.0
    high: float = 1.0
    value: Any = None
    values: tuple[str | int, ...] = ()
    layout: Literal["chw", "hwc"] = "chw"

    def draw(self, rng: np.random.Generator) -> Any:
        """Return an array."""
        size = self.shape
        array: Any
        match self.fill:
            case "normal":
                array = rng.normal(self.mean, self.std, size)
            case "uniform":
                array = rng.uniform(self.low, self.high, size)
            case "integers":
                array = rng.integers(int(self.low), int(self.high), size)
            case "constant":
                array = np.broadcast_to(self.value, size)
            case "choice":
                array = rng.choice(self.values, size)
            case "onehot":
                array = np.eye(size[-1])[rng.integers(0, size[-1], size[:-1])]
            case "audio":
                array = _speak(math.prod(size[:-1]), size[-1], rng).reshape(size)
            case "image" | "text":
                chw = size if self.layout == "chw" else (*size[:-3], size[-1], *size[-3:-1])
                plane = _paint(chw, rng) if self.fill == "image" else _print(chw, rng)
                array = self.low + (self.high - self.low) * plane
                array = array if self.layout == "chw" else np.moveaxis(array, -3, -1)
        return np.asarray(array).astype(object if self.dtype == "string" else self.dtype)


def draw(inputs: dict[str, Input], seed: int) -> dict[str, Any]:
    """Return an array for each input."""
    rng = np.random.default_rng(seed)
    return {name: given.draw(rng) for name, given in inputs.items()}


def _speak(rows: int, length: int, rng: np.random.Generator) -> Any:
    """Return vowels of 0.2 s between pauses, at 16 kHz, with a little noise."""
    seconds = np.arange(length) / 16000
    pitch, phase = rng.uniform(90, 250, (rows, 1)), rng.uniform(0, 0.4, (rows, 1))
    voice = sum(np.sin(2 * np.pi * pitch * k * seconds) / k for k in range(1, 12))
    voice = 0.2 * voice * ((seconds + phase) % 0.4 < 0.2)
    return np.clip(voice + rng.normal(0, 0.003, voice.shape), -1, 1)


def _paint(shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Return planes of large and small tiles, between 0 and 1."""
    return (_tile(shape, 32, rng) + _tile(shape, 8, rng)) / 2


def _print(shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Return a light page with lines of dark strokes, between 0 and 1."""
    *_, height, width = shape
    ink = (_tile((height, width), 3, rng) < 0.45) & (_tile((height, width), 40, rng) < 0.8)
    ink &= (np.arange(height)[:, None] % 40 >= 10) & (np.arange(height)[:, None] % 40 < 30)
    return np.broadcast_to(np.where(ink, 0.1, 0.9), shape)


def _tile(shape: tuple[int, ...], size: int, rng: np.random.Generator) -> Any:
    """Return planes of tiles of one value each, between 0 and 1."""
    *rest, height, width = shape
    tiles = rng.uniform(0, 1, (*rest, height // size + 1, width // size + 1))
    return tiles.repeat(size, -2).repeat(size, -1)[..., :height, :width]
