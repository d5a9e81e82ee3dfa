"""The graph of an ncnn network, read from and written to a ``.param`` file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: The first line of a ``.param`` file.
_MAGIC = "7767517"

#: Layers that do not change the bits of their input.
_PASS_THROUGH = frozenset(
    ("Split", "Reshape", "Permute", "Crop", "Slice", "Squeeze", "ExpandDims", "Flatten", "Noop")
)


@dataclass
class Layer:
    """One layer of a network.

    Attributes:
        type: ncnn's name of the operation, such as ``Convolution``.
        name: The layer's name, unique in the network.
        inputs: The names of the blobs that the layer reads.
        outputs: The names of the blobs that the layer writes.
        params: The parameters as in the file, such as ``0=64``.
    """

    type: str
    name: str
    inputs: list[str]
    outputs: list[str]
    params: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, line: str) -> Layer:
        """Parse one line of a ``.param`` file."""
        kind, name, ins, outs, *rest = line.split()
        first, last = int(ins), int(ins) + int(outs)
        return cls(kind, name, rest[:first], rest[first:last], rest[last:])

    def int_param(self, number: int) -> int:
        """Return the integer parameter with this id, or 0, ncnn's default, if it is not set."""
        start = f"{number}="
        return next((int(text[len(start) :]) for text in self.params if text.startswith(start)), 0)

    def __str__(self) -> str:
        counts = f"{len(self.inputs)} {len(self.outputs)}"
        return " ".join([self.type, self.name, counts, *self.inputs, *self.outputs, *self.params])


class Graph:
    """The layers of a network; the ``.bin`` file contains their weights in the same order.

    Attributes:
        layers: The layers in the order in which they run.
    """

    def __init__(self, layers: list[Layer]) -> None:
        self.layers = layers

    @classmethod
    def read(cls, path: Path) -> Graph:
        """Read a ``.param`` file."""
        _, _, *lines = path.read_text().splitlines()
        return cls([Layer.parse(line) for line in lines if line.strip()])

    def write(self, path: Path) -> None:
        """Write the ``.param`` file."""
        blobs = sum(len(layer.outputs) for layer in self.layers)
        lines = [_MAGIC, f"{len(self.layers)} {blobs}", *map(str, self.layers)]
        path.write_text("\n".join(lines) + "\n")

    def separate_returned_inputs(self) -> None:
        """Insert a no-op layer after each input that the model returns unchanged.

        pnnx gives the blob of such an input the output's name, so that ncnn cannot find the input.
        """
        for layer in [layer for layer in self.layers if layer.type == "Input"]:
            if layer.name in layer.outputs:
                continue
            position = self.layers.index(layer) + 1
            self.layers.insert(
                position, Layer("Noop", "returned_" + layer.name, [layer.name], layer.outputs)
            )
            layer.outputs = [layer.name]

    @property
    def blobs(self) -> set[str]:
        """The names of the blobs that the layers write."""
        return {blob for layer in self.layers for blob in layer.outputs}

    def is_read(self, blob: str) -> bool:
        """Return True if a layer reads the blob."""
        return any(blob in layer.inputs for layer in self.layers)

    def readers(self, blob: str) -> list[Layer]:
        """Return the layers that read a blob, directly or through layers that only move values."""
        readers = []
        for layer in self.layers:
            if blob not in layer.inputs:
                continue
            if layer.type in _PASS_THROUGH:
                readers += [reader for out in layer.outputs for reader in self.readers(out)]
            else:
                readers.append(layer)
        return readers
