"""Calls of a network by its plan, each with an extractor of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.authors import numpy_dtype
from enginebay.errors import InferenceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import ncnn

    from enginebay.authors import NumpyArray
    from enginebay_ncnn.plan import Plan, Port

_FAILED = "ncnn could not compute '{name}' (blob {blob}, code {code})"


#: The index that adds an axis at each place: several times as fast as numpy.expand_dims.
_NEW_AXIS = [(*(slice(None),) * axis, None) for axis in range(5)]


class Session:
    """Runs a network on one piece of a batch.

    Args:
        net: The loaded network.
        plan: The mapping between its blobs and the model's tensors.

    Attributes:
        net: The network.
    """

    def __init__(self, net: ncnn.Net, plan: Plan) -> None:
        places = dict(zip(net.input_names(), net.input_indexes(), strict=True))
        self._inputs = [(port, places[port.blob], _encoder(port)) for port in plan.inputs]
        blobs = dict(zip(net.output_names(), net.output_indexes(), strict=True))
        self._outputs = [(port, blobs[port.blob], _decoder(port)) for port in plan.outputs]
        self._open = net.create_extractor
        self.net = net  # an extractor does not keep it alive

    def run(self, feed: Mapping[str, NumpyArray]) -> list[NumpyArray]:
        """Compute the outputs, in the model's order; each has its own memory.

        Raises:
            InferenceError: A layer failed, or ncnn cannot hold an input.
        """
        try:
            return self._run(feed)
        except Exception as err:  # noqa: BLE001 - raised again
            # The traceback would keep the extractor, which must not outlive the network.
            raise err.with_traceback(None)  # noqa: B904 - the same error

    def _run(self, feed: Mapping[str, NumpyArray]) -> list[NumpyArray]:
        return self._results(self.extractor(feed))

    def extractor(self, feed: Mapping[str, NumpyArray]) -> ncnn.Extractor:
        """Return an extractor that has the inputs, and has computed nothing yet.

        Raises:
            InferenceError: ncnn cannot hold an input.
        """
        extractor = self._open()
        for port, place, encode in self._inputs:
            if code := extractor.input(place, encode(feed[port.name])):
                raise InferenceError(_FAILED.format(name=port.name, blob=port.blob, code=code))
        return extractor

    def _results(self, extractor: ncnn.Extractor) -> list[NumpyArray]:
        return [
            decode(self._blob(extractor, place, port.name, port.blob))
            for port, place, decode in self._outputs
        ]

    def _blob(self, extractor: ncnn.Extractor, place: int | str, name: str, blob: str) -> ncnn.Mat:
        code, mat = extractor.extract(place)
        if code:
            raise InferenceError(_FAILED.format(name=name, blob=blob, code=code))
        return mat


#: The dimensions of an ncnn.Mat at most.
_RANK = 4


def _encoder(port: Port) -> Callable[[NumpyArray], ncnn.Mat]:
    import ncnn

    wanted = np.dtype(port.stored)
    axis = port.batch_axis

    def encode(array: NumpyArray) -> ncnn.Mat:
        if not array.size:
            raise InferenceError(
                f"input '{port.name}' of shape {array.shape} is empty: ncnn holds no empty tensor"
            )
        if array.dtype != wanted:
            array = _stored(port, array, wanted)
        if axis is not None:
            if array.shape[axis] != 1:
                return ncnn.Mat(np.ascontiguousarray(array), batch_index=axis)
            array = array.squeeze(axis)
        if not array.ndim:
            array = array.reshape(1)
        if array.ndim > _RANK and 1 in array.shape:
            # A video: what reads so many dimensions is a reshape, which needs only their order.
            array = array.squeeze(array.shape.index(1))
        # A Mat made from an array borrows its memory, which lacks the padding that layers need, and
        # does not keep it alive: what is copied here must have a name until the clone is made.
        array = np.ascontiguousarray(array)
        return ncnn.Mat(array).clone()

    return encode


def _stored(port: Port, array: NumpyArray, wanted: np.dtype[Any]) -> NumpyArray:
    converted = array.astype(wanted)
    if array.dtype.kind in "iu" and array.itemsize >= 4:
        with np.errstate(invalid="ignore"):  # 2**63 is no int64
            changed = array[converted.astype(array.dtype) != array]
        if changed.size:
            raise InferenceError(
                f"input '{port.name}' holds {max(changed.tolist(), key=abs)}, "
                f"more than ncnn's {port.stored} can hold"
            )
    return converted


def _decoder(port: Port) -> Callable[[ncnn.Mat], NumpyArray]:
    letter = "i" if port.stored == "int32" else "f"
    given = None if port.dtype == port.stored else numpy_dtype(port.dtype)
    return partial(_decode, port=port, letter=letter, given=given)


def _decode(mat: ncnn.Mat, *, port: Port, letter: str, given: np.dtype[Any] | None) -> NumpyArray:
    if port.batch_axis is not None:
        if mat.n > 1:
            array = mat.numpy(letter, batch_index=port.batch_axis)
        else:
            array = mat.numpy(letter)[_NEW_AXIS[min(port.batch_axis, mat.dims)]]
    else:
        array = mat.numpy(letter)
    if array.ndim != len(port.shape):
        array = _with_rank(array, port)
    # A Mat has gaps between channels, and two outputs may share its memory: copy.
    return np.array(array, dtype=given, order="C")


def _with_rank(array: NumpyArray, port: Port) -> NumpyArray:
    """Restore the model's rank: ncnn drops some dimensions of size one."""
    if array.size == np.prod(port.shape):
        return array.reshape(port.shape)
    squeezed = array.squeeze()
    ones = [axis for axis, size in enumerate(port.shape) if size == 1]
    if squeezed.ndim + len(ones) != len(port.shape):
        raise InferenceError(
            f"ncnn gave '{port.name}' the shape {array.shape}; wanted rank {len(port.shape)}, "
            f"as in {port.shape}"
        )
    return np.expand_dims(squeezed, tuple(ones))
