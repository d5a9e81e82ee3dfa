"""Candidate files for pnnx to convert: first the unchanged IR, then the IR lowered for ncnn."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import isolation
from enginebay.errors import ConversionError, EnginebayError
from enginebay_ncnn.onnx_files import save_onnx_for_pnnx
from enginebay_ncnn.torchscript_files import silence_warnings, summarize_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch.export import ExportedProgram

    from enginebay import IRModel
    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import ConvertRequest
    from enginebay_ncnn.params import NcnnParams
    from enginebay_ncnn.plan import BlobType
    from enginebay_ncnn.shapes import InputShape
    from enginebay_ncnn.torchscript import Frozen


#: The share of the time limit for the unchanged model. pnnx never ends on some graphs, but converts
#: their lowered form; most graphs take seconds.
_FIRST_SHARE = 1 / 8


@dataclass(frozen=True)
class Feed:
    """One input of a file that pnnx converts.

    Attributes:
        shape: The input's name and range of shapes in the model, and its dtype in the file.
        dtype: The input's dtype in the model.
        stored: The element type of the input's blob (ncnn's tensor); None if the type depends on
            the layers that read the blob.
    """

    shape: InputShape
    dtype: str
    stored: BlobType | None = None


@dataclass(frozen=True)
class Candidate:
    """A file for pnnx to convert.

    Attributes:
        path: The file; pnnx may write into its folder.
        feeds: The file's inputs in order.
        reference: The expected outputs for the example inputs; None if they are not known.
        source_lines: Lines of the model's source code, by operator name.
        timeout: Time limit of pnnx in seconds; the parameter ``pnnx_timeout`` can only shorten it.
    """

    path: Path
    feeds: tuple[Feed, ...]
    reference: tuple[NumpyArray, ...] | None = None
    source_lines: Mapping[str, list[str]] = field(default_factory=dict)
    timeout: float = math.inf


def iterate_candidates(
    request: ConvertRequest[NcnnParams],
    frozen: Frozen | None,
    shapes: tuple[InputShape, ...],
    folder: Path,
) -> Iterator[tuple[str, Callable[[], Candidate]]]:
    """Yield, for each file that pnnx may try, a name and a function.

    The name is for messages. The function writes the file and returns its :class:`Candidate`.

    Args:
        request: The request with the model and the parameters.
        frozen: The model as frozen TorchScript; None for an ONNX model.
        shapes: The shapes of the model's inputs.
        folder: The folder to write the files to.
    """
    ir = request.ir
    feeds = tuple(Feed(shape, shape.dtype) for shape in shapes)
    if frozen is None:
        yield "the unchanged model", lambda: Candidate(_copy_onnx(ir, shapes, folder), feeds)
        return
    if request.params.module_ops:  # frozen TorchScript has no modules left
        yield (
            "the model with its modules",
            lambda: Candidate(
                _copy_torchscript(ir, folder), feeds, frozen.outputs, frozen.source_lines
            ),
        )
        return
    is_open = any(shape.is_open for shape in shapes)  # a lowered graph has fixed sizes
    # A model with dynamic shapes has no other candidate, which would need the rest of the time.
    timeout = math.inf if is_open else _FIRST_SHARE * isolation.time_left()
    yield (
        "the unchanged model",
        lambda: Candidate(frozen.path, feeds, frozen.outputs, frozen.source_lines, timeout),
    )
    if is_open:
        return
    program = cache(lambda: _lower_program(request, frozen))  # two candidates share it
    yield (
        "the model with lowered operators",
        lambda: _write_candidate(program(), frozen, feeds, folder),
    )
    if frozen.has_attention:
        # pnnx fuses an attention into one layer, wrongly for some models.
        yield (
            "the model with lowered operators and split attention",
            lambda: _write_candidate(program(), frozen, feeds, folder, split_attention=True),
        )


def _lower_program(request: ConvertRequest[NcnnParams], frozen: Frozen) -> ExportedProgram:
    """Return the model's graph, lowered to the operators in :data:`dialect.operators.OPERATORS`.

    Raises:
        ConversionError: An operator has no lowering, or torch cannot capture the model.
    """
    import torch

    from enginebay_ncnn.dialect.operators import OPERATORS

    try:
        with torch.no_grad(), silence_warnings():
            program: ExportedProgram = request.lower(frozen.module, frozen.examples, OPERATORS)
            return program
    except EnginebayError:
        raise
    except Exception as err:  # torch raises many types
        raise ConversionError(f"torch cannot capture the model: {summarize_error(err)}") from err


def _write_candidate(
    program: ExportedProgram,
    frozen: Frozen,
    feeds: tuple[Feed, ...],
    folder: Path,
    *,
    split_attention: bool = False,
) -> Candidate:
    from enginebay_ncnn.dialect.program import write_program

    target = folder / "lowered.pt"
    tables = write_program(program, frozen.examples, target, split_attention=split_attention)
    floats = [
        Feed(msgspec.structs.replace(feed.shape, dtype="float32"), feed.dtype, "float32")
        for feed in feeds
    ]
    integers = [
        Feed(
            msgspec.structs.replace(feeds[index].shape, dtype="int64"), feeds[index].dtype, "int32"
        )
        for index in tables
    ]
    return Candidate(target, (*floats, *integers), frozen.outputs, frozen.source_lines)


def _copy_onnx(ir: IRModel, shapes: tuple[InputShape, ...], folder: Path) -> Path:
    copied = _make_copy_folder(folder) / ir.path.name
    save_onnx_for_pnnx(ir, copied, [shape.name for shape in shapes if not shape.smallest])
    return copied


def _copy_torchscript(ir: IRModel, folder: Path) -> Path:
    return Path(shutil.copy(ir.path, _make_copy_folder(folder)))


def _make_copy_folder(folder: Path) -> Path:
    copies = folder / "ir"  # pnnx writes a file into the folder of the model
    copies.mkdir(exist_ok=True)
    return copies
