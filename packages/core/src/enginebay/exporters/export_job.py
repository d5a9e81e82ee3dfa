"""The input and the result of an exporter, and atomic writing of the exported files."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.errors import ExportError, raise_if_interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from enginebay.exporters.flat_model import FlatModel
    from enginebay.params import DynamicShapes
    from enginebay.tensors import TensorSpec


@dataclass(frozen=True)
class ExportJob:
    """The input of an exporter.

    Attributes:
        flat: The model in evaluation mode, in a wrapper that takes and returns only tensors.
        samples: Input name → example tensor, resized so that dimensions can be dynamic.
        example_shapes: Input name → shape of the caller's example.
        output_names: Names of the outputs, in order.
        dynamic: The dynamic dimensions.
        opset: The requested ONNX opset; None for the exporter's default.
        target: The main file to write, in an empty folder that may get further files.
    """

    flat: FlatModel
    samples: Mapping[str, Tensor]
    example_shapes: Mapping[str, tuple[int, ...]]
    output_names: tuple[str, ...]
    dynamic: DynamicShapes
    opset: int | None
    target: Path

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Copies of the samples for one run, because ``forward`` may write to the tensors."""
        return tuple(tensor.clone() for tensor in self.samples.values())


@dataclass(frozen=True)
class ExportedFiles:
    """The result of an exporter; :class:`~enginebay.IRModel` describes the attributes."""

    exporter: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    opset: int | None = None
    notes: tuple[str, ...] = ()


@contextmanager
def stage_files(path: Path) -> Iterator[Path]:
    """Yield a path in a temporary folder; after the block, move its files to ``path.parent``.

    Existing files at ``path`` are replaced only if the block succeeds.

    Raises:
        ExportError: The files cannot be written.
    """
    with report_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder, since a rename is only atomic within one file system.
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield folder / path.name
        raise_if_interrupted()
        with report_write_errors(path):
            # The main file last: it must never exist without its external data.
            for file in sorted(folder.iterdir(), key=lambda file: file.name == path.name):
                file.replace(path.parent / file.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def report_write_errors(path: Path) -> Iterator[None]:
    """Raise a CannotWriteError for an OSError (disk full, permission denied) in the block."""
    try:
        yield
    except OSError as err:
        raise CannotWriteError(f"cannot write '{path}': {err.strerror or err}") from err


class CannotWriteError(ExportError):
    """Error of a full disk, or of another failure to write; other exporters would fail as well."""
