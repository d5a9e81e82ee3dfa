"""Run a network on NumPy arrays, with a separate extractor for each call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from enginebay.authors.arrays import numpy_dtype
from enginebay.errors import InferenceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import ncnn

    from enginebay.authors.arrays import NumpyArray
    from enginebay_ncnn.plan import Plan, Port

_FAILED = "ncnn could not compute '{name}' (blob {blob}, code {code})"


#: Indices that insert an axis at each position: several times as fast as numpy.expand_dims.
_NEW_AXIS = [(*(slice(None),) * axis, None) for axis in range(5)]


class Session:
    """Runs a network on one item of a batch, or on the whole batch if the blobs have a batch axis.

    Args:
        net: The loaded network.
        plan: The mapping between the network's blobs and the model's tensors.

    Attributes:
        net: The network.
    """

    def __init__(self, net: ncnn.Net, plan: Plan) -> None:
        sources = dict(zip(net.input_names(), net.input_indexes(), strict=True))
        self._inputs = [(port, sources[port.blob], _make_encoder(port)) for port in plan.inputs]
        results = dict(zip(net.output_names(), net.output_indexes(), strict=True))
        self._outputs = [(port, results[port.blob], _make_decoder(port)) for port in plan.outputs]
        self._open = net.create_extractor
        self.net = net  # an extractor holds no reference to it

    def run(self, feed: Mapping[str, NumpyArray]) -> list[NumpyArray]:
        """Run the network; return copies of the outputs in the model's order.

        Raises:
            InferenceError: A layer failed, or ncnn cannot hold an input.
        """
        try:
            return self._run(feed)
        except Exception as err:  # noqa: BLE001 - raised again
            # The traceback refers to the extractor, which must not outlive the network.
            raise err.with_traceback(None)  # noqa: B904 - the same error

    def _run(self, feed: Mapping[str, NumpyArray]) -> list[NumpyArray]:
        return self._extract_outputs(self.extractor(feed))

    def extractor(self, feed: Mapping[str, NumpyArray]) -> ncnn.Extractor:
        """Return an extractor that has received the inputs, but has not computed anything yet.

        Raises:
            InferenceError: ncnn cannot hold an input.
        """
        extractor = self._open()
        for port, index, encode in self._inputs:
            if code := extractor.input(index, encode(feed[port.name])):
                raise InferenceError(_FAILED.format(name=port.name, blob=port.blob, code=code))
        return extractor

    def _extract_outputs(self, extractor: ncnn.Extractor) -> list[NumpyArray]:
        return [
            decode(self._extract(extractor, index, port.name, port.blob))
            for port, index, decode in self._outputs
        ]

    def _extract(
        self, extractor: ncnn.Extractor, index: int | str, name: str, blob: str
    ) -> ncnn.Mat:
        code, mat = extractor.extract(index)
        if code:
            raise InferenceError(_FAILED.format(name=name, blob=blob, code=code))
        return mat


#: The largest rank of an ncnn.Mat.
_MAX_RANK = 4


def _make_encoder(port: Port) -> Callable[[NumpyArray], ncnn.Mat]:
    import ncnn

    dtype = np.dtype(port.stored)
    axis = port.batch_axis

    def encode(array: NumpyArray) -> ncnn.Mat:
        if not array.size:
            raise InferenceError(
                f"input '{port.name}' of shape {array.shape} is empty, and ncnn does not "
                "support empty tensors"
            )
        if array.dtype != dtype:
            array = _convert_input(port, array, dtype)
        if axis is not None:
            if array.shape[axis] != 1:
                return ncnn.Mat(np.ascontiguousarray(array), batch_index=axis)
            array = array.squeeze(axis)
        if not array.ndim:
            array = array.reshape(1)
        if array.ndim > _MAX_RANK and 1 in array.shape:
            # A video: only a reshape reads so many dimensions, and it needs only their order.
            array = array.squeeze(array.shape.index(1))
        # A Mat made from an array borrows the memory, which lacks the padding that layers need, and
        # holds no reference to the array: the copy needs a name until the Mat is cloned.
        array = np.ascontiguousarray(array)
        return ncnn.Mat(array).clone()

    return encode


def _convert_input(port: Port, array: NumpyArray, dtype: np.dtype) -> NumpyArray:
    converted = array.astype(dtype)
    # Smaller integers are exact in float32 and in int32.
    if array.dtype.kind in "iu" and array.itemsize >= 4:
        with np.errstate(invalid="ignore"):  # 2**63 overflows int64
            changed = array[converted.astype(array.dtype) != array]
        if changed.size:
            raise InferenceError(
                f"input '{port.name}' contains {max(changed.tolist(), key=abs)}, "
                f"which ncnn's {port.stored} cannot represent"
            )
    return converted


def _make_decoder(port: Port) -> Callable[[ncnn.Mat], NumpyArray]:
    letter = "i" if port.stored == "int32" else "f"
    dtype = None if port.dtype == port.stored else numpy_dtype(port.dtype)
    return partial(_decode_output, port=port, letter=letter, dtype=dtype)


def _decode_output(mat: ncnn.Mat, *, port: Port, letter: str, dtype: np.dtype | None) -> NumpyArray:
    if port.batch_axis is not None:
        if mat.n > 1:
            array = mat.numpy(letter, batch_index=port.batch_axis)
        else:
            array = mat.numpy(letter)[_NEW_AXIS[min(port.batch_axis, mat.dims)]]
    else:
        array = mat.numpy(letter)
    if array.ndim != len(port.shape):
        array = _restore_rank(array, port)
    # A Mat has gaps between channels, and two outputs may share its memory: copy.
    return np.array(array, dtype=dtype, order="C")


def _restore_rank(array: NumpyArray, port: Port) -> NumpyArray:
    """Insert the dimensions of size one that the model's output has but ncnn's array has not."""
    if array.size == np.prod(port.shape):
        return array.reshape(port.shape)
    squeezed = array.squeeze()
    ones = [axis for axis, size in enumerate(port.shape) if size == 1]
    if squeezed.ndim + len(ones) != len(port.shape):
        raise InferenceError(
            f"output '{port.name}' has the wrong rank: "
            f"expected {len(port.shape)} as in {port.shape}, found the shape {array.shape}"
        )
    return np.expand_dims(squeezed, tuple(ones))
