"""A model as files of an intermediate representation (IR), with its inputs and outputs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import msgspec

from enginebay.params import IRKind
from enginebay.tensors import TensorSpec

ExporterName = Literal["dynamo", "torchscript"]

SUFFIXES: dict[IRKind, str] = {"onnx": ".onnx", "torchscript": ".pt", "exported_program": ".pt2"}

#: The folder of an artifact with the IR it was converted from, if the user requested that.
IR_FOLDER = "ir"


class IRModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as files of an IR; backends convert these files.

    Attributes:
        kind: The kind of the IR.
        path: The absolute path of the main file.
        files: The absolute paths of all files: the main file, then the files with weights.
        inputs: The inputs in order; empty for a TorchScript file that another tool wrote, since
            TorchScript does not record inputs.
        outputs: The outputs in order; empty for a TorchScript file that another tool wrote.
        exporter: The writer of the file: ``torch.onnx dynamo``, ``torch.onnx torchscript``,
            ``torch.jit.trace``, ``torch.export``, or ``file`` for a file of the user.
        opset: The version of ONNX's own operator set; None for the other kinds of IR.
        notes: Notes for the user, one line each, such as the reason why the first exporter was not
            used, or the inputs that the exporter has dropped.
        example_shapes: Input name → shape of the example that the model was exported with; empty
            for a file that another tool wrote.
    """

    kind: IRKind
    path: Path
    files: tuple[Path, ...]
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    exporter: str = "file"
    opset: int | None = None
    notes: tuple[str, ...] = ()
    example_shapes: dict[str, tuple[int, ...]] = {}

    def digest(self) -> str:
        """Return the file's SHA-256; for several files, the SHA-256 of their joined digests."""
        digests = [_hash_file(file) for file in self.files]
        if len(digests) == 1:
            return digests[0]
        return hashlib.sha256("".join(digests).encode()).hexdigest()


def _hash_file(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
