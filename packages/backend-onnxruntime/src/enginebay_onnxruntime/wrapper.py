"""The wrapper of an ONNX Runtime session."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

import enginebay as eb
from enginebay_onnxruntime.dtypes import ELEMENT_TYPES, read_specs
from enginebay_onnxruntime.params import CUDA
from enginebay_onnxruntime.providers import (
    count_nodes,
    describe_fallbacks,
    find_working_provider,
    get_device,
    list_packaged,
)
from enginebay_onnxruntime.repairs import KEY
from enginebay_onnxruntime.session import create_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnxruntime
    import torch

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import WrapperRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

_log = logging.getLogger("enginebay.onnxruntime")


def load_wrapper(request: WrapperRequest[OnnxruntimeParams]) -> OnnxruntimeWrapper:
    """Create a session on the artifact's model, and return a wrapper that runs it."""
    session, cached = create_session(request)
    return wrap_session(session, request, cached)


def wrap_session(
    session: onnxruntime.InferenceSession,
    request: WrapperRequest[OnnxruntimeParams],
    cached: str = "",
) -> OnnxruntimeWrapper:
    """Return a wrapper that runs a session; ``cached`` is the text from :func:`create_session`.

    Raises:
        ConversionError: The session's inputs or outputs are not tensors.
    """
    inputs, outputs = read_specs(session)
    specs = (*inputs, *outputs)
    receipt = _make_receipt(session, request.params, specs, cached)
    kind = OrtValueWrapper if OrtValueWrapper.is_needed(inputs, outputs) else OnnxruntimeWrapper
    on_host = not receipt.device.startswith("cuda") or any(
        spec.dtype not in ELEMENT_TYPES for spec in specs
    )
    return kind(
        session,
        receipt=receipt,
        inputs=request.inputs or inputs,
        outputs=request.outputs or outputs,
        native_device=None if on_host else receipt.device.partition(":")[0],
    )


class OnnxruntimeWrapper(eb.Wrapper):
    """Runs an ONNX Runtime session.

    Args:
        session: The session.
        receipt: The properties of the loaded session.
        inputs: The specs of the inputs that callers pass.
        outputs: The specs of the outputs that callers receive, in order.
        native_device: The torch device type whose tensors the session uses without a copy; None if
            the session copies all tensors.
    """

    concurrent = True  # session.run is thread-safe

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
        # session.run checks the names again and catches errors for its fallback, which takes 1 µs
        # of the 4 µs of a tiny model. It calls this method with the same arguments.
        self._run_session = getattr(session, "_sess", session).run

    @property
    def receipt(self) -> eb.Receipt:
        """The receipt, with the provider and the device that the session really uses."""
        return self._receipt

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Run the session on arrays in host memory, and return new arrays."""
        return self._run_session(self._names, feed, None)  # type: ignore[no-any-return]  # onnxruntime has no types

    def execute_torch(self, feed: dict[str, torch.Tensor]) -> Sequence[torch.Tensor]:
        """Run the session on tensors in device memory, without copies through the host."""
        import torch

        device = torch.device(self._receipt.device)
        binding = self.session.io_binding()
        # Referenced until the run has finished: the binding holds only addresses.
        bound = {name: tensor.to(device).contiguous() for name, tensor in feed.items()}
        index = device.index or 0
        for spec in self.inputs:
            tensor = bound[spec.name]
            element_type = ELEMENT_TYPES[spec.dtype]
            shape, address = tuple(tensor.shape), tensor.data_ptr()
            binding.bind_input(spec.name, device.type, index, element_type, shape, address)
        for name in self._names:
            binding.bind_output(name, device.type, index)
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()  # the session has its own stream
        self.session.run_with_iobinding(binding)
        original = next(iter(feed.values())).device
        outputs = map(to_torch, binding.get_outputs(), self.outputs)
        # An output that is also an input shares the input's memory.
        addresses = {tensor.data_ptr() for tensor in bound.values()}
        return [
            (output.clone() if output.data_ptr() in addresses else output).to(original)
            for output in outputs
        ]

    def release(self) -> None:
        """End the profile, add the path of its file to the receipt, and free the session."""
        if "profile" in self._receipt.details:
            details = self._receipt.details | {"profile": self.session.end_profiling()}
            self._receipt = msgspec.structs.replace(self._receipt, details=details)
            _log.info("ONNX Runtime wrote its profile to '%s'", details["profile"])
        del self.session, self._run_session


class OrtValueWrapper(OnnxruntimeWrapper):
    """Runs a session whose inputs or outputs ``session.run`` does not handle correctly.

    ``session.run`` does not support bfloat16. It returns uint64 as ``np.ulonglong``, which torch
    rejects. At least up to 1.24, it returns the caller's array for an output that is also an input.
    """

    @staticmethod
    def is_needed(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> bool:
        """Return True if a model's inputs or outputs require OrtValues."""
        dtypes = {spec.dtype for spec in (*inputs, *outputs)}
        names = {spec.name for spec in inputs}.intersection(spec.name for spec in outputs)
        return bool(names) or not dtypes.isdisjoint({"bfloat16", "uint64"})

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Run the session on OrtValues, which share the inputs' memory."""
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

    from enginebay.authors.arrays import numpy_dtype

    # A copy: an output that is also an input shares the input's memory.
    array = np.empty(value.shape(), numpy_dtype(spec.dtype))
    ctypes.memmove(array.ctypes.data, value.data_ptr(), array.nbytes)
    return array


def to_torch(value: onnxruntime.OrtValue, spec: TensorSpec) -> torch.Tensor:
    """Return a tensor that shares the memory of an OrtValue."""
    import torch

    tensor = torch.utils.dlpack.from_dlpack(value._ortvalue.to_dlpack())
    # ONNX Runtime returns bools as bytes.
    return tensor.view(torch.bool) if spec.dtype == "bool" else tensor


def _make_receipt(
    session: onnxruntime.InferenceSession,
    params: OnnxruntimeParams,
    specs: Sequence[TensorSpec],
    cached: str,
) -> eb.Receipt:
    import onnxruntime

    counts = count_nodes(params, session)
    provider = find_working_provider(params, session, counts)
    packages = [packaged.package for packaged in list_packaged(params).values()]
    details = {
        "providers": ", ".join(session.get_providers()),
        "nodes": ", ".join(f"{name} {count}" for name, count in counts.items()),
        "replaced": session.get_modelmeta().custom_metadata_map.get(KEY, ""),
        "optimized_cache": cached,
        "profile": params.profile or "",
        "cuda_graph": "one for each of up to 16 sizes, in each thread"
        if params.cuda_graph and provider == CUDA
        else "",
    }
    return eb.Receipt(
        engine=", ".join((f"onnxruntime {onnxruntime.__version__}", *packages)),
        device=get_device(params, provider, session),
        provider=provider,
        precision=_describe_precision(params, specs),
        fallbacks=describe_fallbacks(params, session, counts),
        details={key: value for key, value in details.items() if value},
    )


def _describe_precision(params: OnnxruntimeParams, specs: Sequence[TensorSpec]) -> str:
    # From inputs, outputs and parameters: a session gives no access to its weights.
    dtypes = {spec.dtype for spec in specs}
    if "bfloat16" in dtypes:
        return "bf16"
    return "fp16" if "float16" in dtypes else params.precision
