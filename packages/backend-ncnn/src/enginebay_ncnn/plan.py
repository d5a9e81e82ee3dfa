"""The plan: how a model's tensors become ncnn's blobs and come back.

ncnn knows no names but its own, no dtypes, and one batch axis at most. What was decided when the
model was converted is kept in a small JSON file beside the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from enginebay.errors import ArtifactError

if TYPE_CHECKING:
    from pathlib import Path

#: What a blob's four bytes are.
BlobType = Literal["float32", "int32"]


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """One blob at the edge of the network.

    Attributes:
        name: The model's name for the tensor.
        blob: ncnn's name for it: ``in0``, ``out0`` …
        dtype: The model's dtype.
        stored: What the blob holds.
        shape: The tensor's shape when the model was converted.
        batch_axis: The axis of the tensor that is the blob's batch; None where all are its dims.
        loop_axis: The axis along which larger tensors are cut, one network call a piece; None
            where every call gets, or gives, the same.
    """

    name: str
    blob: str
    dtype: str
    stored: BlobType
    shape: tuple[int, ...]
    batch_axis: int | None = None
    loop_axis: int | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the wrapper must know besides the network itself.

    Attributes:
        inputs: The blobs that go in; inputs that the network does not use have none.
        outputs: The blobs that come out, in the model's order.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def write(self, path: Path) -> None:
        """Write the plan as JSON."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Read what :meth:`write` wrote.

        Raises:
            ArtifactError: The file is missing or holds something else.
        """
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError) as err:
            raise ArtifactError(f"'{path}' does not hold ncnn's plan: {err}") from err
