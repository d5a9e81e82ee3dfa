"""Description of a model inside its IR file: names, dtypes, shapes, and the example's shapes.

TorchScript and exported programs store it as an extra file in their archive, ONNX as metadata. With
it, every file that Enginebay exports can be deployed without any further option.
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

#: A size in a file, which may come from an attacker: msgspec refuses negative ones.
Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class FileDescription(msgspec.Struct, frozen=True):
    """The content of the extra file.

    Attributes:
        inputs: The inputs in order.
        outputs: The outputs in order.
        example_shapes: Input name → shape of the example that the model was exported with.
    """

    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    example_shapes: dict[str, tuple[Size, ...]] = {}


def describe(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    example_shapes: Mapping[str, Sequence[int]],
) -> dict[str, str]:
    """Return a description as name and content of an extra file, for torch's save functions."""
    shapes = {name: tuple(shape) for name, shape in example_shapes.items()}
    description = FileDescription(tuple(inputs), tuple(outputs), shapes)
    return {KEY: msgspec.json.encode(description).decode()}


def read_description(text: str | bytes, path: Path) -> FileDescription | None:
    """Parse the extra file of ``path``; None if it is empty: Enginebay did not write the file.

    Raises:
        ModelSourceError: The extra file is damaged.
    """
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=FileDescription)
    except msgspec.MsgspecError as err:
        raise ModelSourceError(f"'{path}' is damaged: its {KEY} cannot be read: {err}") from err
