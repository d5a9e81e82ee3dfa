"""Description of a model inside its IR file: the specs of its inputs and outputs.

TorchScript files and exported programs contain the description as ``enginebay.json`` in their zip
archive, and ONNX files contain it as metadata. Users can therefore deploy each of these files
without further options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec

from enginebay.errors import ModelSourceError
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: The description's file name in a zip archive, and its key in ONNX metadata.
KEY = "enginebay.json"

#: A size that msgspec refuses if it is negative, since an attacker may have written the file.
Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class FileDescription(msgspec.Struct, frozen=True):
    """The specs of a model's inputs and outputs, as the IR file contains them.

    Attributes:
        inputs: The model's inputs, in order.
        outputs: The model's outputs, in order.
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
    """Return the specs as ``{KEY: JSON text}``, as torch's argument ``_extra_files`` requires."""
    shapes = {name: tuple(shape) for name, shape in example_shapes.items()}
    description = FileDescription(tuple(inputs), tuple(outputs), shapes)
    return {KEY: msgspec.json.encode(description).decode()}


def read_description(text: str | bytes, path: Path) -> FileDescription | None:
    """Parse the text of a description; return None if it is empty.

    Args:
        text: The text; empty if another tool wrote the file.
        path: The file that contains the text, for messages.

    Raises:
        ModelSourceError: The description is damaged.
    """
    if not text:  # Enginebay did not write the file
        return None
    try:
        return msgspec.json.decode(text, type=FileDescription)
    except msgspec.MsgspecError as err:
        raise ModelSourceError(
            f"'{path}' is damaged: the metadata '{KEY}' cannot be read: {err}"
        ) from err
