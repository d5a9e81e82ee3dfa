"""The plan: the mapping between a model's tensors and ncnn's blobs.

ncnn has names of its own, no dtypes, and at most one batch axis. The conversion writes the mapping
into a small JSON file next to the network; the wrapper reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from enginebay.errors import ArtifactError

if TYPE_CHECKING:
    from pathlib import Path

#: The type of a blob's elements, which are four bytes each.
BlobType = Literal["float32", "int32"]


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """One blob at the edge of the network.

    Attributes:
        name: The model's name for the tensor.
        blob: ncnn's name for it: ``in0``, ``out0`` …
        dtype: The model's dtype.
        stored: The type of the blob's elements.
        shape: The tensor's shape when the model was converted.
        batch_axis: The axis of the tensor that is the blob's batch; None if the blob has none.
        loop_axis: The axis along which larger tensors are cut, with one network call for each
            piece; None if all calls share the tensor.
    """

    name: str
    blob: str
    dtype: str
    stored: BlobType
    shape: tuple[int, ...]
    batch_axis: int | None = None
    loop_axis: int | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The blobs of a network's inputs and outputs.

    Attributes:
        inputs: The input blobs, without those of inputs that the network does not use.
        outputs: The output blobs, in the model's order.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def write(self, path: Path) -> None:
        """Write the plan as JSON."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Read a plan that :meth:`write` wrote.

        Raises:
            ArtifactError: The file is missing or is not a plan.
        """
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError) as err:
            raise ArtifactError(f"'{path}' is not a valid ncnn plan: {err}") from err
