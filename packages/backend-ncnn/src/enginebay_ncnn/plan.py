"""The plan of a network: the mapping between a model's tensors and ncnn's blobs.

An ncnn network has other tensor names than the model, no dtypes, and at most one batch axis. The
conversion writes the mapping into a small JSON file next to the network; the wrapper reads it.
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
    """One input or output of the model, and its blob in the network.

    Attributes:
        name: The tensor's name in the model.
        blob: The blob's name in the network: ``in0``, ``out0`` …
        dtype: The tensor's dtype in the model.
        stored: The type of the blob's elements.
        shape: The tensor's shape at the time of the conversion.
        batch_axis: The tensor's axis that is the blob's batch; None if the blob has no batch.
        loop_axis: The axis along which a tensor is split into items of size one, so that the
            network runs once for each item; None if all runs use the whole tensor.
    """

    name: str
    blob: str
    dtype: str
    stored: BlobType
    shape: tuple[int, ...]
    batch_axis: int | None = None
    loop_axis: int | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs and outputs of a model, each with its blob in the network.

    Attributes:
        inputs: The inputs that the network reads.
        outputs: The outputs in the model's order.
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
