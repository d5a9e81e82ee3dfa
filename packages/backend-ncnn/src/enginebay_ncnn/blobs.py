"""Match the model's inputs and outputs with the network's blobs (ncnn's tensors).

The blobs' names are in the network's ``.param`` file. The outputs of a first run show which blobs
hold integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from enginebay.authors.arrays import numpy_dtype
from enginebay.errors import ConversionError
from enginebay_ncnn.plan import Plan, Port
from enginebay_ncnn.shapes import find_batch_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from enginebay import IRModel, TensorSpec
    from enginebay.authors.arrays import NumpyArray
    from enginebay_ncnn.candidates import Candidate
    from enginebay_ncnn.graph import Graph
    from enginebay_ncnn.plan import BlobType
    from enginebay_ncnn.pnnx import Converted

#: The largest error, relative to the largest magnitude of an output, that rounding can explain. A
#: larger error means a wrong conversion. The artifact's verification, later, is stricter.
_TOLERANCE = 1e-2
#: The share of integers, such as indices of the largest scores, that rounding may change.
_CHANGED = 1e-3


def match_blobs(ir: IRModel, candidate: Candidate, converted: Converted, graph: Graph) -> Plan:
    """Return a plan that maps the model's inputs and outputs to the blobs of the network.

    The type of every output blob is float32 until :func:`resolve_outputs` corrects the type.

    Raises:
        ConversionError: The network has no blob for an output of the model.
    """
    batch = find_batch_name(ir.inputs)
    specs = {spec.name: spec for spec in ir.inputs}
    inputs = [
        Port(
            name=feed.shape.name,
            blob=blob,
            dtype=feed.dtype,
            stored=feed.stored or _input_type(graph, blob, feed.dtype),
            shape=feed.shape.smallest,
            batch_axis=converted.batch_axis(blob),
            loop_axis=_loop_axis(specs[feed.shape.name], batch),
        )
        for blob, feed in ((f"in{index}", feed) for index, feed in enumerate(candidate.feeds))
        if graph.is_read(blob)
    ]
    outputs = [
        _match_output(index, spec, batch, converted, graph.blobs, candidate.reference)
        for index, spec in enumerate(ir.outputs)
    ]
    return Plan(inputs=tuple(inputs), outputs=tuple(outputs))


def _match_output(
    index: int,
    spec: TensorSpec,
    batch: str | None,
    converted: Converted,
    blobs: set[str],
    reference: Sequence[NumpyArray] | None,
) -> Port:
    blob = f"out{index}"
    if blob not in blobs:
        raise ConversionError(f"pnnx's network has no output '{spec.name}' (blob {blob})")
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
        dtype="float32",  # resolve_outputs corrects both after the first run
        stored="float32",
        shape=shape,
        batch_axis=converted.batch_axis(blob),
        loop_axis=_loop_axis(spec, batch),
    )


def _loop_axis(spec: TensorSpec, batch: str | None) -> int | None:
    return spec.dims.index(batch) if batch and spec.dims and batch in spec.dims else None


def _input_type(graph: Graph, blob: str, dtype: str) -> BlobType:
    if dtype.startswith("float"):
        return "float32"
    # An embedding table is indexed with int32; all other layers compute with floats.
    return "int32" if any(layer.type == "Embed" for layer in graph.readers(blob)) else "float32"


def resolve_outputs(
    plan: Plan,
    specs: Sequence[TensorSpec],
    arrays: Sequence[NumpyArray],
    reference: Sequence[NumpyArray] | None,
    unordered: Collection[str] = (),
) -> tuple[Plan, float]:
    """Add the output blobs' types to the plan; compare the first run's outputs with ``reference``.

    Args:
        plan: The mapping of tensors to blobs that :func:`match_blobs` returned.
        specs: The specs of the model's outputs.
        arrays: The outputs of the first run, read as float32 even if ncnn wrote integers.
        reference: The expected outputs; None if they are not known.
        unordered: Names of the outputs whose elements may be in any order.

    Returns:
        The completed plan, and the largest relative error of the outputs: an output's largest
        absolute error divided by the largest magnitude of the expected output.

    Raises:
        ConversionError: An output differs from the expected output by more than rounding.
    """
    outputs, error = [], 0.0
    for index, (matched, spec, array) in enumerate(zip(plan.outputs, specs, arrays, strict=True)):
        expected = None if reference is None else reference[index]
        port = msgspec.structs.replace(matched, dtype=spec.dtype)
        if expected is not None and spec.name in unordered and array.shape == expected.shape:
            # The bits of integers from 0 on, read as floats, have the same order as the integers.
            array, expected = np.sort(array, axis=None), np.sort(expected, axis=None)
        stored = _output_type(port, array, expected)
        if expected is not None:
            error = max(error, _relative_error(port, array.view(stored), expected))
        outputs.append(msgspec.structs.replace(port, stored=stored))
    return msgspec.structs.replace(plan, outputs=tuple(outputs)), error


def _output_type(port: Port, array: NumpyArray, expected: NumpyArray | None) -> BlobType:
    """Return int32 if ``array`` contains the bits of integers read as float32, else float32."""
    if port.dtype.startswith("float"):
        return "float32"
    bits = array.view(np.int32)
    if expected is not None:
        return "int32" if _are_mostly(bits == expected) and (array != expected).any() else "float32"
    # The bits of small integers, read as float32, are subnormal numbers.
    tiny = np.abs(array) < np.finfo(np.float32).tiny
    return "int32" if tiny.all() and bits.any() else "float32"


def _are_mostly(same: NumpyArray) -> bool:
    return int(np.count_nonzero(same)) >= (1 - _CHANGED) * same.size


def _relative_error(port: Port, array: NumpyArray, expected: NumpyArray) -> float:
    if array.shape != expected.shape:
        raise ConversionError(
            f"pnnx's network differs from the TorchScript: output '{port.name}' has the wrong "
            f"shape: expected {expected.shape}, found {array.shape}"
        )
    computed = array.astype(numpy_dtype(port.dtype)).astype(np.float64)
    exact = expected.astype(np.float64)
    same = (computed == exact) | (np.isnan(computed) & np.isnan(exact))
    if not port.dtype.startswith("float") and _are_mostly(same):
        return 0.0  # of many indices of the largest scores; a few were near-ties
    with np.errstate(all="ignore"):
        # NaN in only one of the arrays is an infinite error.
        distance = np.where(same, 0, np.nan_to_num(np.abs(computed - exact), nan=np.inf))
    worst = float(np.max(distance, initial=0.0))
    scale = float(np.max(np.abs(exact[np.isfinite(exact)]), initial=0.0))
    error = worst / max(scale, 1e-3)  # an output of zeros has no scale of its own
    if error > _TOLERANCE:
        raise ConversionError(
            f"pnnx's network differs from the TorchScript: "
            f"output '{port.name}' has an absolute error of {worst:.2g}"
        )
    return error
