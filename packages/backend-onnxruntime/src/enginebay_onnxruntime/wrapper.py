"""An ONNX Runtime session behind the wrapper contract."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

import enginebay as eb
from enginebay_onnxruntime.dtypes import ELEMENT_TYPES, read_specs
from enginebay_onnxruntime.providers import device_of, fallbacks, node_counts, working_provider
from enginebay_onnxruntime.session import create_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnxruntime
    import torch

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray
    from enginebay.hooks import WrapperRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

_log = logging.getLogger("enginebay.onnxruntime")


def load(request: WrapperRequest[OnnxruntimeParams]) -> OnnxruntimeWrapper:
    """Load the artifact's model as the request says.

    Raises:
        MissingDependencyError: ONNX Runtime does not import.
        ConversionError: ONNX Runtime cannot load the model, or its inputs or outputs are not
            tensors.
    """
    session, cached = create_session(request)
    return wrap(session, request, cached)


def wrap(
    session: onnxruntime.InferenceSession,
    request: WrapperRequest[OnnxruntimeParams],
    cached: str = "",
) -> OnnxruntimeWrapper:
    """Put a session that was created for a request behind the wrapper contract.

    Args:
        session: The session.
        request: The request.
        cached: The part that the cache of optimised models had in it.

    Raises:
        ConversionError: Its inputs or outputs are not tensors.
    """
    inputs, outputs = read_specs(session)
    specs = (*inputs, *outputs)
    receipt = _receipt(session, request.params, specs, cached)
    kind = OrtValueWrapper if OrtValueWrapper.is_needed(inputs, outputs) else OnnxruntimeWrapper
    on_host = receipt.device == "cpu" or any(spec.dtype not in ELEMENT_TYPES for spec in specs)
    return kind(
        session,
        receipt=receipt,
        inputs=request.inputs or inputs,
        outputs=request.outputs or outputs,
        native_device=None if on_host else receipt.device.partition(":")[0],
    )


class OnnxruntimeWrapper(eb.Wrapper):
    """Runs one session; calls may overlap, since ``session.run`` is thread-safe.

    Args:
        session: The session.
        receipt: The facts that it reports about itself.
        inputs: The inputs that callers pass.
        outputs: The outputs that they get, in order.
        native_device: The torch device type whose tensors the session takes as they are.
    """

    concurrent = True

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        *,
        receipt: eb.Receipt,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        native_device: str | None = None,
    ) -> None:
        super().__init__(inputs=inputs, outputs=outputs)
        self.session = session
        self.native_device = native_device
        self._receipt = receipt
        self._names = list(self.output_names)
        # session.run checks the names once more and catches errors to fall back, which takes 1 µs
        # of the 4 µs of a tiny model. It calls this method, with the same arguments.
        self._run_session = getattr(session, "_sess", session).run

    @property
    def receipt(self) -> eb.Receipt:
        """Return what the session reports, not what was requested."""
        return self._receipt

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Call ``session.run``, whose results are new arrays."""
        return self._run_session(self._names, feed, None)  # type: ignore[no-any-return]  # onnxruntime has no types

    def execute_torch(self, feed: dict[str, torch.Tensor]) -> Sequence[torch.Tensor]:
        """Bind device memory on both sides, so that nothing passes through the host."""
        import torch

        device = torch.device(self._receipt.device)
        binding = self.session.io_binding()
        # Kept until the run is over: the binding holds bare addresses.
        kept = {name: tensor.to(device).contiguous() for name, tensor in feed.items()}
        index = device.index or 0
        for spec in self.inputs:
            tensor = kept[spec.name]
            element_type = ELEMENT_TYPES[spec.dtype]
            shape, address = tuple(tensor.shape), tensor.data_ptr()
            binding.bind_input(spec.name, device.type, index, element_type, shape, address)
        for name in self._names:
            binding.bind_output(name, device.type, index)
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()  # the session has a stream of its own
        self.session.run_with_iobinding(binding)
        wanted = next(iter(feed.values())).device
        outputs = map(_to_torch, binding.get_outputs(), self.outputs)
        # An output that is an input too comes back as the input's own memory.
        given = {tensor.data_ptr() for tensor in kept.values()}
        return [
            (output.clone() if output.data_ptr() in given else output).to(wanted)
            for output in outputs
        ]

    def release(self) -> None:
        """End the profile, whose file the receipt names from now on, and free the session."""
        if "profile" in self._receipt.details:
            details = self._receipt.details | {"profile": self.session.end_profiling()}
            self._receipt = msgspec.structs.replace(self._receipt, details=details)
            _log.info("ONNX Runtime wrote its profile to '%s'", details["profile"])
        del self.session, self._run_session


class OrtValueWrapper(OnnxruntimeWrapper):
    """Runs a session with tensors that ``session.run`` does not pass correctly.

    It has no bfloat16, returns uint64 as ``np.ulonglong``, which torch refuses, and, at least up to
    1.24, returns the caller's own array for an output that is an input too.
    """

    @staticmethod
    def is_needed(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> bool:
        """Return True if a model has such a tensor."""
        dtypes = {spec.dtype for spec in (*inputs, *outputs)}
        names = {spec.name for spec in inputs}.intersection(spec.name for spec in outputs)
        return bool(names) or not dtypes.isdisjoint({"bfloat16", "uint64"})

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Run on OrtValues, which share the inputs' memory."""
        values = {name: _to_value(array) for name, array in feed.items()}
        outputs = self.session.run_with_ort_values(self._names, values)
        return [_from_value(value, spec) for value, spec in zip(outputs, self.outputs, strict=True)]


def _to_value(array: NumpyArray) -> onnxruntime.OrtValue:
    import numpy as np
    from onnxruntime import OrtValue

    array = np.asarray(array, order="C")
    if array.dtype.name != "bfloat16":
        return OrtValue.ortvalue_from_numpy(array)
    bits = array.view(np.uint16)
    return OrtValue.ortvalue_from_numpy_with_onnx_type(bits, ELEMENT_TYPES["bfloat16"])


def _from_value(value: onnxruntime.OrtValue, spec: TensorSpec) -> NumpyArray:
    if spec.dtype == "string":
        return value.numpy()  # type: ignore[no-any-return]  # onnxruntime has no types
    import ctypes

    import numpy as np

    from enginebay.authors import numpy_dtype

    # A copy: an output that is an input too has the input's own memory.
    array = np.empty(value.shape(), numpy_dtype(spec.dtype))
    ctypes.memmove(array.ctypes.data, value.data_ptr(), array.nbytes)
    return array


def _to_torch(value: onnxruntime.OrtValue, spec: TensorSpec) -> torch.Tensor:
    import torch

    tensor = torch.utils.dlpack.from_dlpack(value._ortvalue.to_dlpack())
    # ONNX Runtime passes bools as bytes.
    return tensor.view(torch.bool) if spec.dtype == "bool" else tensor


def _receipt(
    session: onnxruntime.InferenceSession,
    params: OnnxruntimeParams,
    specs: Sequence[TensorSpec],
    cached: str,
) -> eb.Receipt:
    import onnxruntime

    counts = node_counts(params, session)
    provider = working_provider(session, counts)
    details = {
        "providers": ", ".join(session.get_providers()),
        "nodes": ", ".join(f"{name} {count}" for name, count in counts.items()),
        "optimized_cache": cached,
        "profile": params.profile or "",
    }
    return eb.Receipt(
        engine=f"onnxruntime {onnxruntime.__version__}",
        device=device_of(provider, session),
        provider=provider,
        precision=_precision(params, specs),
        fallbacks=fallbacks(params, session, counts),
        details={key: value for key, value in details.items() if value},
    )


def _precision(params: OnnxruntimeParams, specs: Sequence[TensorSpec]) -> str:
    """Return the precision by inputs, outputs and parameters; a session hides its weights."""
    dtypes = {spec.dtype for spec in specs}
    if "bfloat16" in dtypes:
        return "bf16"
    return "fp16" if "float16" in dtypes else params.precision
