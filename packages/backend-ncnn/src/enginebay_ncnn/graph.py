"""A network in ncnn's text format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = "7767517"

#: Layers that pass the bits of their input on unchanged.
_CARRIERS = frozenset(
    ("Split", "Reshape", "Permute", "Crop", "Slice", "Squeeze", "ExpandDims", "Flatten", "Noop")
)


@dataclass
class Layer:
    """One layer.

    Attributes:
        type: ncnn's name of the operation.
        name: Its own name.
        inputs: The blobs it reads.
        outputs: The blobs it writes.
        params: Its parameters as the file has them.
    """

    type: str
    name: str
    inputs: list[str]
    outputs: list[str]
    params: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, line: str) -> Layer:
        """Read one line of the file."""
        kind, name, ins, outs, *rest = line.split()
        first, last = int(ins), int(ins) + int(outs)
        return cls(kind, name, rest[:first], rest[first:last], rest[last:])

    def param(self, number: int) -> int:
        """Return a whole number among the parameters; 0 where it is left out."""
        start = f"{number}="
        return next((int(text[len(start) :]) for text in self.params if text.startswith(start)), 0)

    def __str__(self) -> str:
        counts = f"{len(self.inputs)} {len(self.outputs)}"
        return " ".join([self.type, self.name, counts, *self.inputs, *self.outputs, *self.params])


class Graph:
    """A network without its weights, which are in another file, in the order of the layers.

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

    def keep_returned(self) -> None:
        """Put a layer behind each input that the model returns: pnnx gives it the output's name."""
        for layer in [each for each in self.layers if each.type == "Input"]:
            if layer.name in layer.outputs:
                continue
            place = self.layers.index(layer) + 1
            self.layers.insert(
                place, Layer("Noop", "returned_" + layer.name, [layer.name], layer.outputs)
            )
            layer.outputs = [layer.name]

    @property
    def blobs(self) -> set[str]:
        """All blobs that a layer writes."""
        return {blob for layer in self.layers for blob in layer.outputs}

    def is_read(self, blob: str) -> bool:
        """Return True if a layer reads the blob."""
        return any(blob in layer.inputs for layer in self.layers)

    def readers(self, blob: str) -> list[Layer]:
        """Return the layers that read a blob, also behind layers that only pass it on."""
        found = []
        for layer in self.layers:
            if blob not in layer.inputs:
                continue
            if layer.type in _CARRIERS:
                found += [reader for out in layer.outputs for reader in self.readers(out)]
            else:
                found.append(layer)
        return found
