"""A description beside the graph: names, dtypes, shapes, and the sizes of the example inputs.

TorchScript and exported programs keep it as an extra file in their archive, ONNX among its
metadata. With it every file that Enginebay exports can be deployed without a further word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec

from enginebay.errors import ModelSourceError
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: The name of the extra file, and the key of the metadata.
KEY = "enginebay.json"

#: A file may come from anybody: a negative size is refused where it is read.
Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Description(msgspec.Struct, frozen=True):
    """The content of the extra file.

    Attributes:
        inputs: The inputs in order.
        outputs: The outputs in order.
        example_shapes: The shape of each input in the example that the model was exported with.
    """

    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    example_shapes: dict[str, tuple[Size, ...]] = {}


def describe(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    example_shapes: Mapping[str, Sequence[int]],
) -> dict[str, str]:
    """The extra file by its name, as torch's save functions take it."""
    shapes = {name: tuple(shape) for name, shape in example_shapes.items()}
    description = Description(tuple(inputs), tuple(outputs), shapes)
    return {KEY: msgspec.json.encode(description).decode()}


def read_description(text: str | bytes, path: Path) -> Description | None:
    """Read the extra file of ``path``; None where it is empty, as in a file of somebody else's.

    Raises:
        ModelSourceError: It is damaged.
    """
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Description)
    except msgspec.MsgspecError as err:
        raise ModelSourceError(f"'{path}' is damaged: its {KEY} cannot be read: {err}") from err
