"""The files that pnnx tries: the IR as it is, then the IR with its operators lowered."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import time_left
from enginebay.errors import ConversionError, EnginebayError
from enginebay_ncnn.dialect.operators import OPERATORS
from enginebay_ncnn.onnx_files import save_for_pnnx
from enginebay_ncnn.torchscript import first_line, quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch.export import ExportedProgram

    from enginebay import IRModel
    from enginebay.authors import NumpyArray
    from enginebay.hooks import ConvertRequest
    from enginebay_ncnn.params import NcnnParams
    from enginebay_ncnn.plan import BlobType
    from enginebay_ncnn.shapes import InputShape
    from enginebay_ncnn.torchscript import Frozen


#: The part of the time limit for the model as it is: pnnx does not end on some graphs whose
#: lowered form it converts, and takes seconds for others.
_FIRST_SHARE = 1 / 8


@dataclass(frozen=True)
class Feed:
    """One input of a candidate's file.

    Attributes:
        shape: The model's input, with the dtype of the file's input.
        dtype: The dtype of the model's input.
        stored: The type that its blob must hold; None if it follows from the network.
    """

    shape: InputShape
    dtype: str
    stored: BlobType | None = None


@dataclass(frozen=True)
class Candidate:
    """One file to try.

    Attributes:
        path: The file; pnnx may write beside it.
        feeds: Its inputs in order.
        reference: The outputs that it computes for the examples; None if they are not known.
        places: Source lines of the model by operator.
        timeout: Seconds that pnnx may take, beside its own time limit.
    """

    path: Path
    feeds: tuple[Feed, ...]
    reference: tuple[NumpyArray, ...] | None = None
    places: Mapping[str, list[str]] = field(default_factory=dict)
    timeout: float = math.inf


def candidates(
    request: ConvertRequest[NcnnParams],
    frozen: Frozen | None,
    shapes: tuple[InputShape, ...],
    folder: Path,
) -> Iterator[tuple[str, Callable[[], Candidate]]]:
    """Yield the candidates in order, each as its name for messages and a function that makes it.

    Args:
        request: The request to convert an IR.
        frozen: The same model as frozen TorchScript; None for ONNX.
        shapes: The shapes of its inputs.
        folder: The folder for the files.
    """
    ir = request.ir
    feeds = tuple(Feed(shape, shape.dtype) for shape in shapes)
    if frozen is None:
        yield "as it is", lambda: Candidate(_copy_onnx(ir, shapes, folder), feeds)
        return
    if request.params.module_ops:  # freezing inlines the modules that are to be kept
        yield (
            "with its modules",
            lambda: Candidate(_copy(ir, folder), feeds, frozen.outputs, frozen.places),
        )
        return
    is_only = any(shape.is_open for shape in shapes)  # a lowered graph holds for one size
    timeout = math.inf if is_only else _FIRST_SHARE * time_left()
    yield (
        "as it is",
        lambda: Candidate(frozen.path, feeds, frozen.outputs, frozen.places, timeout),
    )
    if is_only:
        return
    program = cache(lambda: _lower(request, frozen))
    yield "with its operators lowered", lambda: _lowered(program(), frozen, feeds, folder)
    if frozen.has_attention:
        yield (
            "lowered with attention in its parts",
            lambda: _lowered(program(), frozen, feeds, folder, attention_apart=True),
        )


def _lower(request: ConvertRequest[NcnnParams], frozen: Frozen) -> ExportedProgram:
    """Return the model as a graph of the operators that the dialect writes.

    Raises:
        ConversionError: Nothing lowers some operators, or torch cannot capture the model.
    """
    import torch

    try:
        with torch.no_grad(), quiet():
            program: ExportedProgram = request.lower(frozen.module, frozen.examples, OPERATORS)
            return program
    except EnginebayError:
        raise
    except Exception as err:  # of torch's own, of any kind
        raise ConversionError(f"torch cannot capture the model: {first_line(err)}") from err


def _lowered(
    program: ExportedProgram,
    frozen: Frozen,
    feeds: tuple[Feed, ...],
    folder: Path,
    *,
    attention_apart: bool = False,
) -> Candidate:
    from enginebay_ncnn.dialect.writing import write

    target = folder / "lowered.pt"
    tables = write(program, frozen.examples, target, attention_apart=attention_apart)
    floats = [
        Feed(msgspec.structs.replace(feed.shape, dtype="float32"), feed.dtype, "float32")
        for feed in feeds
    ]
    integers = [
        Feed(
            msgspec.structs.replace(feeds[place].shape, dtype="int64"), feeds[place].dtype, "int32"
        )
        for place in tables
    ]
    return Candidate(target, (*floats, *integers), frozen.outputs, frozen.places)


def _copy_onnx(ir: IRModel, shapes: tuple[InputShape, ...], folder: Path) -> Path:
    copied = _place_for_copy(folder) / ir.path.name
    save_for_pnnx(ir, copied, [shape.name for shape in shapes if not shape.smallest])
    return copied


def _copy(ir: IRModel, folder: Path) -> Path:
    return Path(shutil.copy(ir.path, _place_for_copy(folder)))


def _place_for_copy(folder: Path) -> Path:
    place = folder / "ir"  # pnnx writes a file of its own beside the model
    place.mkdir(exist_ok=True)
    return place
