"""An intermediate representation: its files, and the inputs and outputs of the model in them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import msgspec

from enginebay.errors import ModelSourceError
from enginebay.tensors import TensorSpec

IRKind = Literal["onnx", "torchscript", "exported_program"]
ExporterName = Literal["dynamo", "torchscript"]

SUFFIXES: dict[IRKind, str] = {"onnx": ".onnx", "torchscript": ".pt", "exported_program": ".pt2"}

#: The folder of an artifact that keeps the IR it was made from, on request.
IR_FOLDER = "ir"


class IRModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as files that engines can convert.

    Attributes:
        kind: The representation.
        path: The main file, absolute.
        files: Every file the model needs, absolute: the main file first, then external weights.
        inputs: The inputs in order; empty where the file does not say (a foreign TorchScript file).
        outputs: The outputs in order; empty where the file does not say.
        exporter: What wrote it: ``torch.onnx dynamo``, ``torch.onnx torchscript``,
            ``torch.jit.trace``, ``torch.export``, or ``file`` where it was given as a file.
        opset: The version of ONNX's own operators; None for the other kinds.
        notes: One line each, for the user: why the first exporter was not used, what was left out.
        example_shapes: The shape of each input in the example that the model was exported with;
            empty where the file does not say.
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
        """The SHA-256 of all files, in hex; for a single file what ``sha256sum`` prints."""
        digests = [_sha256(file) for file in self.files]
        return (
            digests[0]
            if len(digests) == 1
            else hashlib.sha256("".join(digests).encode()).hexdigest()
        )


def check_regular(path: Path) -> None:
    """Raise ModelSourceError for a pipe or a device, which may give nothing for ever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ModelSourceError(f"'{path}' is a pipe or a device; wanted a file")


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
