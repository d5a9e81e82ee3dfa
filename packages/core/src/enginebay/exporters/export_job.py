"""The input and the result that all exporters share, and safe writing of their files."""

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
    from enginebay.models import DynamicShapes
    from enginebay.tensors import TensorSpec


@dataclass(frozen=True)
class Job:
    """One export.

    Attributes:
        flat: The model, in evaluation mode.
        samples: Example inputs by name, of sizes that the open dimensions allow.
        example_shapes: The shape of each input in the caller's own example.
        output_names: The outputs' names in order.
        dynamic: The open dimensions.
        opset: The wanted operator set; None for the exporter's own choice.
        target: The main file to write; others go beside it. The folder is empty.
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
        """The samples for one run; copies, because a forward may write into them."""
        return tuple(tensor.clone() for tensor in self.samples.values())


@dataclass(frozen=True)
class Written:
    """The description of the files that an exporter wrote."""

    exporter: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    opset: int | None = None
    notes: tuple[str, ...] = ()


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """A place to write a file of this name and its companions, which move to ``path`` at the end.

    What is at ``path`` already stays until then: a failed export loses nothing.

    Raises:
        ExportError: The files cannot be written.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield folder / path.name
        raise_if_interrupted()
        with writing(path):
            # External data first: a main file never stands there without it.
            for file in sorted(folder.iterdir(), key=lambda file: file.name == path.name):
                file.replace(path.parent / file.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full disk or a closed folder into one line."""
    try:
        yield
    except OSError as err:
        raise CannotWriteError(f"cannot write '{path}': {err.strerror or err}") from err


class CannotWriteError(ExportError):
    """The files cannot be written; another exporter would not help."""
