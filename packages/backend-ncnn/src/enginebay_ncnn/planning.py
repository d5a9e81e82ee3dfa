"""Drawing up the plan: what each blob is, first by the network's graph, then by its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from enginebay.authors import numpy_dtype
from enginebay.errors import ConversionError
from enginebay_ncnn.plan import Plan, Port
from enginebay_ncnn.shapes import batch_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay import IRModel, TensorSpec
    from enginebay.authors import NumpyArray
    from enginebay_ncnn.candidates import Candidate
    from enginebay_ncnn.graph import Graph
    from enginebay_ncnn.plan import BlobType
    from enginebay_ncnn.pnnx import Converted

#: How far the network may be from the TorchScript, as a part of its largest number. This is no
#: verdict: it tells a wrong conversion from rounding.
_TOLERANCE = 1e-2


def draw_up(ir: IRModel, candidate: Candidate, converted: Converted, graph: Graph) -> Plan:
    """The plan as far as the graph and the specs tell it.

    Raises:
        ConversionError: The network lacks an output of the model.
    """
    batch = batch_name(ir.inputs)
    specs = {spec.name: spec for spec in ir.inputs}
    inputs = [
        Port(
            name=feed.shape.name,
            blob=blob,
            dtype=feed.dtype,
            stored=feed.stored or _stored(graph, blob, feed.dtype),
            shape=feed.shape.smallest,
            batch_axis=converted.batch_axis(blob),
            loop_axis=_loop_axis(specs[feed.shape.name], batch),
        )
        for blob, feed in ((f"in{index}", feed) for index, feed in enumerate(candidate.feeds))
        if graph.is_read(blob)
    ]
    outputs = [
        _output(index, spec, batch, converted, graph.blobs, candidate.reference)
        for index, spec in enumerate(ir.outputs)
    ]
    return Plan(inputs=tuple(inputs), outputs=tuple(outputs))


def _output(
    index: int,
    spec: TensorSpec,
    batch: str | None,
    converted: Converted,
    blobs: set[str],
    reference: Sequence[NumpyArray] | None,
) -> Port:
    blob = f"out{index}"
    if blob not in blobs:
        raise ConversionError(f"pnnx left out the output '{spec.name}' ({blob})")
    if reference is not None:
        shape = reference[index].shape
    elif spec.is_static:
        shape = spec.dims
    else:
        assert spec.dims is not None
        shape = tuple(1 if dim == batch else -1 for dim in spec.dims)
    return Port(
        name=spec.name,
        blob=blob,
        dtype="float32",  # until the first run has told what the bits are
        stored="float32",
        shape=shape,
        batch_axis=converted.batch_axis(blob),
        loop_axis=_loop_axis(spec, batch),
    )


def _loop_axis(spec: TensorSpec, batch: str | None) -> int | None:
    return spec.dims.index(batch) if batch and spec.dims and batch in spec.dims else None


def _stored(graph: Graph, blob: str, dtype: str) -> BlobType:
    """Tables are looked up by int32; everything else computes with floats."""
    if dtype.startswith("float"):
        return "float32"
    return "int32" if any(layer.type == "Embed" for layer in graph.readers(blob)) else "float32"


def settle(
    plan: Plan,
    specs: Sequence[TensorSpec],
    found: Sequence[NumpyArray],
    reference: Sequence[NumpyArray] | None,
) -> tuple[Plan, float]:
    """The plan with what the first run told about the outputs, and how far they are off.

    Args:
        plan: What was drawn up; its outputs are read as floats.
        specs: The model's outputs.
        found: The outputs of the first run.
        reference: What they should be; None where nothing can say so.

    Returns:
        The plan, and the largest difference as a part of its output's largest number.

    Raises:
        ConversionError: The numbers are not the reference's.
    """
    outputs, off = [], 0.0
    for index, (drawn, spec, array) in enumerate(zip(plan.outputs, specs, found, strict=True)):
        wanted = None if reference is None else reference[index]
        port = msgspec.structs.replace(drawn, dtype=spec.dtype)
        stored = _output_type(port, array, wanted)
        if wanted is not None:
            off = max(off, _compare(port, array.view(stored), wanted))
        outputs.append(msgspec.structs.replace(port, stored=stored))
    return msgspec.structs.replace(plan, outputs=tuple(outputs)), off


def _output_type(port: Port, array: NumpyArray, wanted: NumpyArray | None) -> BlobType:
    """Whether the bits are integers: small ones, read as floats, are smaller than any float."""
    if port.dtype.startswith("float"):
        return "float32"
    bits = array.view(np.int32)
    if wanted is not None:
        return "int32" if (bits == wanted).all() and (array != wanted).any() else "float32"
    tiny = np.abs(array) < np.finfo(np.float32).tiny
    return "int32" if tiny.all() and bits.any() else "float32"


def _compare(port: Port, array: NumpyArray, wanted: NumpyArray) -> float:
    """The largest difference as a part of the largest number."""
    if array.shape != wanted.shape:
        raise ConversionError(
            f"pnnx's network gives '{port.name}' the shape {array.shape}, "
            f"the TorchScript {wanted.shape}"
        )
    got = array.astype(numpy_dtype(port.dtype)).astype(np.float64)
    want = wanted.astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(all="ignore"):
        distance = np.where(same, 0, np.nan_to_num(np.abs(got - want), nan=np.inf))
    worst = float(np.max(distance, initial=0.0))
    scale = float(np.max(np.abs(want[np.isfinite(want)]), initial=0.0))
    off = worst / max(scale, 1e-3)
    if off > _TOLERANCE:
        raise ConversionError(
            f"pnnx's network gives other numbers than the TorchScript: "
            f"'{port.name}' is off by {worst:.2g}"
        )
    return off
