"""The wrapper of a compiled model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

import enginebay as eb
from enginebay import TensorSpec
from enginebay.authors.arrays import is_torch, numpy_dtype
from enginebay.errors import InferenceError, UsageError
from enginebay_openvino.compiling import compile_model
from enginebay_openvino.dtypes import get_dtype_name, get_openvino_type
from enginebay_openvino.reasons import format_reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    import openvino as ov

    from enginebay.authors.arrays import Array, NumpyArray
    from enginebay.hooks import WrapperRequest
    from enginebay_openvino.params import OpenvinoParams

#: The dtypes that the CPU plugin narrows to int32 and float32.
_NARROWED = ("int64", "uint64", "float64")


class OpenvinoWrapper(eb.Wrapper):
    """Runs one compiled model; concurrent calls use separate infer requests.

    Attributes:
        compiled: The ``openvino.CompiledModel``; deleted when the wrapper is closed.
    """

    concurrent = True

    def __init__(
        self,
        compiled: ov.CompiledModel,
        *,
        receipt: eb.Receipt,
        inputs: Sequence[TensorSpec] = (),
        outputs: Sequence[TensorSpec] = (),
    ) -> None:
        super().__init__(
            inputs=inputs or _make_specs(compiled.inputs, "input"),
            outputs=outputs or _make_specs(compiled.outputs, "output"),
        )
        import openvino as ov

        self.compiled = compiled
        self._receipt = receipt
        self._tensor = ov.Tensor
        # By position: the engine may have a different name for an input, or none.
        self._ports = tuple(
            (n, spec.name, _extension_type(spec)) for n, spec in enumerate(self.inputs)
        )
        self._dtypes = tuple(numpy_dtype(spec.dtype) for spec in self.outputs)
        on_cpu = receipt.device == "cpu"
        self._narrowed = [s.name for s in self.inputs if on_cpu and s.dtype in _NARROWED]
        self._idle: list[ov.InferRequest] = []
        self._workers = ThreadPoolExecutor(
            compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"), "enginebay-openvino"
        )

    @classmethod
    def from_request(cls, request: WrapperRequest[OpenvinoParams]) -> OpenvinoWrapper:
        """Compile the artifact's network for the requested device, and return a wrapper."""
        compiled, receipt = compile_model(request)
        return cls(compiled, receipt=receipt, inputs=request.inputs, outputs=request.outputs)

    @property
    def receipt(self) -> eb.Receipt:
        """The properties that the compiled model reports, not the requested ones."""
        return self._receipt

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Run the model, and return copies of the outputs.

        OpenVINO reads the memory of the caller's arrays; only arrays that are read-only or not
        contiguous are copied.

        Raises:
            InferenceError: An input contains numbers that the engine cannot represent.
        """
        for name in self._narrowed:
            _check_range(name, feed[name])
        try:  # pop and append are atomic, so concurrent calls need no lock
            request = self._idle.pop()
        except IndexError:
            request = self.compiled.create_infer_request()
        # The request holds only addresses: arrays copied here must live until it has run.
        shared = [
            self._share_array(request, index, feed[name], extension)
            for index, name, extension in self._ports
        ]
        try:
            results = request.infer(share_outputs=True).to_tuple()
        except RuntimeError as err:
            raise RuntimeError(format_reason(err)) from err
        del shared
        # Views of the request's memory, which its next call overwrites; bfloat16 is float16 there.
        outputs = [
            result.copy() if result.dtype == dtype else result.copy().view(dtype)
            for result, dtype in zip(results, self._dtypes, strict=True)
        ]
        self._idle.append(request)  # not after an exception: its state is unknown
        return outputs

    def _share_array(
        self, request: ov.InferRequest, index: int, array: NumpyArray, extension: ov.Type | None
    ) -> NumpyArray:
        flags = array.flags
        if not (flags.c_contiguous and flags.writeable):  # OpenVINO cannot share other arrays
            array = np.array(array, order="C")
        if extension is None:
            tensor = self._tensor(array, shared_memory=True)
        else:
            # OpenVINO rejects the dtypes of ml_dtypes: the same bytes are passed as integers.
            tensor = self._tensor(array.view(f"u{array.itemsize}"), array.shape, extension)
        request.set_input_tensor(index, tensor)
        return array

    def last_request(self) -> ov.InferRequest:
        """Return the infer request of the last call; correct only while no call is running."""
        return self._idle[-1]

    def submit(self, inputs: Mapping[str, Array]) -> Future[dict[str, Any]]:
        """Start a call without waiting for its outputs.

        As many calls run at the same time as the engine has streams (``--performance-hint
        throughput``); further calls wait. The inputs are copied: the caller may change its arrays
        immediately.

        Args:
            inputs: The inputs by name, as for ``wrapper(inputs)``.

        Returns:
            A future whose ``result()`` returns or raises what ``wrapper(inputs)`` does.

        Raises:
            UsageError: The wrapper is closed.

        Example:
            >>> futures = [wrapper.submit({"x": x}) for x in images]  # doctest: +SKIP
            >>> results = [future.result() for future in futures]  # doctest: +SKIP
        """
        copies = {name: _copy_array(value) for name, value in inputs.items()}
        try:
            return self._workers.submit(self, copies)
        except RuntimeError as err:
            raise UsageError("this wrapper is closed", hint="load the artifact again") from err

    def release(self) -> None:
        """Wait for submitted calls, then free the compiled model and its requests."""
        self._workers.shutdown()
        self._idle.clear()
        del self.compiled


def _check_range(name: str, array: NumpyArray) -> None:
    """Raise an error if an array contains numbers that OpenVINO's CPU plugin would change."""
    if array.dtype.kind == "f":
        changed = array[np.abs(array) > np.finfo(np.float32).max]
    else:  # the upper half of uint64 survives as negative numbers
        changed = array[array.astype(np.int32).astype(array.dtype) != array]
    if changed.size:
        raise InferenceError(
            f"input '{name}' contains {changed[0]}, but OpenVINO's CPU plugin computes "
            f"{array.dtype} in 32 bits"
        )


def _copy_array(value: Array) -> Array:
    return value.detach().clone() if is_torch(value) else np.array(value)


def _extension_type(spec: TensorSpec) -> ov.Type | None:
    """Return OpenVINO's type of a dtype that NumPy itself does not define, such as bfloat16.

    Return None for all other dtypes.
    """
    return None if numpy_dtype(spec.dtype).isbuiltin == 1 else get_openvino_type(spec.dtype)


def _make_specs(ports: Sequence[ov.Output], kind: str) -> list[TensorSpec]:
    """Return the specs of a compiled model's ports; each dynamic dimension gets a unique name."""
    return [
        _make_spec(port, min(port.names, default=f"{kind}_{number}"))
        for number, port in enumerate(ports)
    ]


def _make_spec(port: ov.Output, name: str) -> TensorSpec:
    dtype, shape = get_dtype_name(port.element_type), port.partial_shape
    if shape.rank.is_dynamic:
        return TensorSpec(name, dtype, None)
    dims = (dim.get_length() if dim.is_static else f"{name}_{n}" for n, dim in enumerate(shape))
    return TensorSpec(name, dtype, tuple(dims))
