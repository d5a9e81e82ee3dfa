"""Runs a session on inputs and outputs at fixed addresses, as a CUDA graph if requested.

ONNX Runtime captures the kernels of a run as a CUDA graph and replays it with the same addresses,
one graph for each value of the run option ``gpu_graph_id`` and for each thread. -1 captures none.
"""

from __future__ import annotations

from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from enginebay.errors import ConversionError, InferenceError
from enginebay_onnxruntime.dtypes import ELEMENT_TYPES
from enginebay_onnxruntime.reasons import format_reason
from enginebay_onnxruntime.session import NO_GRAPH, create_session
from enginebay_onnxruntime.wrapper import OnnxruntimeWrapper, to_torch, wrap_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnxruntime
    import torch

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import WrapperRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

#: The number of sizes that a wrapper keeps buffers for, and captures graphs of.
MOST_SIZES = 16
#: The id of no graph.
NONE = -1
#: Held by the calls of all wrappers: during a capture, CUDA refuses allocations of other threads.
_lock = Lock()


def load_buffered(request: WrapperRequest[OnnxruntimeParams]) -> OnnxruntimeWrapper:
    """Create a session on CUDA, and return a wrapper that keeps its inputs and outputs.

    Raises:
        ConversionError: The model has inputs or outputs that cannot be kept.
    """
    session, cached = create_session(request)
    wrapper = wrap_session(session, request, cached)
    if not wrapper.receipt.device.startswith("cuda"):
        return wrapper  # the receipt has the fallback
    check_buffered(wrapper.inputs, wrapper.outputs)
    return BufferedWrapper(
        session,
        graph=request.params.cuda_graph,
        reuse_outputs=request.params.reuse_outputs,
        receipt=wrapper.receipt,
        inputs=wrapper.inputs,
        outputs=wrapper.outputs,
        native_device=wrapper.native_device,
    )


def check_buffered(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
    """Refuse inputs and outputs that have no address of their own, or that NumPy does not know.

    Raises:
        ConversionError: A dtype is string, bfloat16 or uint64, or an output is also an input.
    """
    names = {spec.name for spec in inputs}
    for spec in (*inputs, *outputs):
        if spec.dtype in ("string", "bfloat16", "uint64"):
            reason = f"'{spec.name}' is of {spec.dtype}"
        elif spec in outputs and spec.name in names:
            reason = f"the output '{spec.name}' is an input too"
        else:
            continue
        raise ConversionError(
            f"cuda_graph and reuse_outputs cannot be used for this model: {reason}",
            hint="leave out --cuda-graph and --reuse-outputs",
        )


class BufferedWrapper(OnnxruntimeWrapper):
    """Copies inputs to buffers that keep their addresses, and the outputs out of others.

    Args:
        session: The session.
        options: The arguments of :class:`OnnxruntimeWrapper`.
        graph: True to capture a CUDA graph for each size.
        reuse_outputs: True to return tensors without a copy: the next call overwrites them.
    """

    concurrent = False  # the calls share the buffers

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        *,
        graph: bool = False,
        reuse_outputs: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(session, **options)
        self._graph = graph
        self._reuse_outputs = reuse_outputs
        self._ids = count(1)  # 0 stands for a run without an id
        self._buffers: dict[tuple[tuple[int, ...], ...], _Buffers] = {}
        self._copied: Any = None  # the torch event after which the outputs have been copied

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Run the session on copies of arrays in host memory, and return new arrays."""
        with _lock:
            if self._copied is not None:
                self._copied.synchronize()
            buffers = self._find_buffers(feed)
            for name, array in feed.items():
                buffers.inputs[name].update_inplace(np.asarray(array, order="C"))
            self._run(buffers)
            arrays = [value.numpy() for value in buffers.outputs]
        # On the CPU, an array shares the buffer's memory.
        return [array if array.flags.owndata else array.copy() for array in arrays]

    def execute_torch(self, feed: dict[str, torch.Tensor]) -> Sequence[torch.Tensor]:
        """Run the session on copies of tensors in device memory."""
        import torch

        device = torch.device(self.receipt.device)
        with _lock:
            stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
            if stream is not None and self._copied is not None:
                stream.wait_event(self._copied)  # of a call in another stream
            buffers = self._find_buffers(feed)
            tensors = buffers.input_tensors
            for spec in self.inputs:
                if spec.name not in tensors:
                    tensors[spec.name] = to_torch(buffers.inputs[spec.name], spec)
                tensors[spec.name].copy_(feed[spec.name])
            if stream is not None:
                stream.synchronize()  # the session has its own stream
            self._run(buffers)
            if not buffers.output_tensors:
                pairs = zip(buffers.outputs, self.outputs, strict=True)
                buffers.output_tensors = [to_torch(value, spec) for value, spec in pairs]
            outputs = buffers.output_tensors
            if not self._reuse_outputs:
                outputs = [tensor.clone() for tensor in outputs]
            if stream is not None:
                self._copied = stream.record_event(self._copied)
        original = next(iter(feed.values())).device
        return [tensor.to(original) for tensor in outputs]

    def _find_buffers(self, feed: dict[str, NumpyArray] | dict[str, torch.Tensor]) -> _Buffers:
        shapes = tuple(tuple(feed[spec.name].shape) for spec in self.inputs)
        found = self._buffers.get(shapes)
        if found is None:
            # An empty tensor has no address.
            is_kept = len(self._buffers) < MOST_SIZES and not any(0 in shape for shape in shapes)
            found = _Buffers(self, shapes, next(self._ids) if is_kept and self._graph else NONE)
            if is_kept:
                self._buffers[shapes] = found
        return found

    def _run(self, buffers: _Buffers) -> None:
        try:
            if buffers.outputs or buffers.allocate_outputs(self).graph_id != NONE:
                self.session.run_with_iobinding(buffers.binding, buffers.run_options)
        except Exception as err:
            # Not used again: a capture that failed leaves nothing to replay.
            self._buffers = {k: v for k, v in self._buffers.items() if v is not buffers}
            if not self._graph:
                raise
            shapes = ", ".join(f"{name} {value.shape()}" for name, value in buffers.inputs.items())
            raise InferenceError(
                f"ONNX Runtime cannot run the model as a CUDA graph on {shapes}: "
                f"{format_reason(err)}",
                hint=NO_GRAPH,
            ) from err

    def release(self) -> None:
        """Free the buffers and the session."""
        self._buffers.clear()
        super().release()


class _Buffers:
    """The inputs and outputs for one combination of shapes, and the session's binding to them."""

    def __init__(
        self, wrapper: OnnxruntimeWrapper, shapes: Sequence[tuple[int, ...]], graph_id: int
    ) -> None:
        from onnxruntime import OrtValue, RunOptions

        kind, _, index = wrapper.receipt.device.partition(":")
        self._place = kind, int(index or 0)
        self.binding = wrapper.session.io_binding()
        self.graph_id = graph_id
        self.run_options = RunOptions()
        self.run_options.add_run_config_entry("gpu_graph_id", str(graph_id))
        self.inputs: dict[str, onnxruntime.OrtValue] = {}
        self.outputs: Sequence[onnxruntime.OrtValue] = ()
        self.input_tensors: dict[str, torch.Tensor] = {}
        self.output_tensors: list[torch.Tensor] = []
        for spec, shape in zip(wrapper.inputs, shapes, strict=True):
            element_type = ELEMENT_TYPES[spec.dtype]
            value = OrtValue.ortvalue_from_shape_and_type(shape, element_type, *self._place)
            self.inputs[spec.name] = value
            self.binding.bind_ortvalue_input(spec.name, value)

    def allocate_outputs(self, wrapper: OnnxruntimeWrapper) -> Self:
        """Run the session once without a graph, which finds the outputs' sizes, and bind them."""
        from onnxruntime import RunOptions

        options = RunOptions()
        options.add_run_config_entry("gpu_graph_id", str(NONE))
        for name in wrapper.output_names:
            self.binding.bind_output(name, *self._place)
        wrapper.session.run_with_iobinding(self.binding, options)
        self.outputs = self.binding.get_outputs()
        for name, value in zip(wrapper.output_names, self.outputs, strict=True):
            self.binding.bind_ortvalue_output(name, value)
        return self
