"""Run an engine, one call at a time, with one execution context, one stream and reused memory."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from enginebay.authors.arrays import numpy_dtype
from enginebay.errors import ConversionError
from enginebay_tensorrt import cuda
from enginebay_tensorrt.context import Context
from enginebay_tensorrt.staging import Staging, copy_async, count_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import tensorrt as trt
    import torch
    from cuda.bindings import runtime as cudart

    from enginebay.authors.arrays import NumpyArray
    from enginebay_tensorrt.context import Grow, Shape
    from enginebay_tensorrt.engine import Engine, Tensor

#: The alignment that TensorRT requires. Allocated memory has it, but a view may not.
ALIGNMENT_BYTES = 256


class Runner:
    """Runs the calls of one engine, one after the other.

    Each call writes the context's memory, so a call makes its CUDA stream wait for the previous
    call. The host does not wait.

    Args:
        engine: The engine.
        as_graph: Whether to record the engine's work once as a CUDA graph and replay it in each
            call; the shapes of all inputs and outputs must be fixed.

    Raises:
        ConversionError: The engine's work cannot be recorded as a CUDA graph.
    """

    def __init__(self, engine: Engine, *, as_graph: bool = False) -> None:
        cudart = cuda.runtime()
        self._engine = engine
        self._index = engine.device.index
        self._staging = {name: Staging() for name in (*engine.inputs, *engine.outputs)}
        self._dtypes = {
            t.spec.name: numpy_dtype(t.spec.dtype)
            for t in (*engine.inputs.values(), *engine.outputs.values())
        }
        self._graph: Any = None
        with cuda.on_device(self._index):
            self._context = Context(engine)
            # Work on a non-blocking stream does not wait for the default stream.
            self._stream = int(cuda.call("cudaStreamCreateWithFlags", cudart.cudaStreamNonBlocking))
            # CUDA synchronises streams faster with events that store no time.
            self._ready, self._done = (
                cuda.call("cudaEventCreateWithFlags", cudart.cudaEventDisableTiming)
                for _ in range(2)
            )
        if as_graph:
            try:
                self._graph = self._record_graph()
            except RuntimeError as err:
                with suppress(RuntimeError):
                    self.close()
                raise ConversionError(
                    f"the engine cannot be recorded as a CUDA graph: {err}",
                    hint="convert the model again without --cuda-graph",
                ) from err

    def watch(self, profiler: trt.IProfiler) -> None:
        """Report the layer times of each later call to a profiler."""
        self._context.watch(profiler)

    @contextmanager
    def _take_turn(self, caller: int) -> Iterator[int]:
        """Yield the CUDA stream for a call; the stream waits for the previous call.

        The stream is ``caller``, or the runner's own stream if ``caller`` is 0, the handle of
        CUDA's default stream.
        """
        # On the default stream, handle 0, TensorRT would block the host: then the call uses the
        # runner's stream, and the caller's stream waits for it.
        stream = caller or self._stream
        with (
            cuda.on_device(self._index),
            self._engine.library.logger.collecting() as self._context.errors,
        ):
            # An event that was never recorded is complete, so the first call does not wait.
            cuda.call("cudaStreamWaitEvent", stream, self._done, 0)
            try:
                yield stream
            except BaseException:
                with suppress(RuntimeError):  # CUDA may be unusable; the cause is raised
                    self._end_turn(stream, caller)
                raise
            self._end_turn(stream, caller)

    def _end_turn(self, stream: int, caller: int) -> None:
        cuda.call("cudaEventRecord", self._done, stream)
        if stream != caller:
            cuda.call("cudaStreamWaitEvent", caller, self._done, 0)

    def _wait_for_caller(self, caller: int, stream: int) -> None:
        """Make a stream wait for the work that is already on the caller's stream."""
        # To be called after the last allocation: earlier work on the caller's stream may still use
        # the memory that torch allocates.
        if stream != caller:
            cuda.call("cudaEventRecord", self._ready, caller)
            cuda.call("cudaStreamWaitEvent", stream, self._ready, 0)

    # -- a call with arrays on the host -----------------------------------------------------------

    def run(self, feed: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """Copy the arrays through pinned memory, run the engine, and wait for the results.

        Raises:
            InputError: The engine has no profile for the shapes.
        """
        shapes = {name: feed[name].shape for name in self._engine.inputs}
        profile = self._context.profile_for(shapes)
        with self._take_turn(self._stream) as stream:
            for name in self._engine.inputs:
                self._staging[name].upload(feed[name], stream)
            output_shapes = self._launch_on_staging(profile, shapes, stream)
            for name, shape in output_shapes.items():
                self._staging[name].download(count_bytes(shape, self._dtypes[name]), stream)
            cuda.call("cudaStreamSynchronize", stream)
            return {n: self._staging[n].read(s, self._dtypes[n]) for n, s in output_shapes.items()}

    def _launch_on_staging(
        self, profile: int, shapes: Mapping[str, Shape], stream: int
    ) -> dict[str, Shape]:
        if self._graph is not None:
            cuda.call("cudaGraphLaunch", self._graph, stream)
            return _static_shapes(self._engine.outputs)
        outputs = self._context.set_shapes(profile, shapes, stream)
        for name in shapes:
            self._context.set_address(name, self._staging[name].device)
        allocations: dict[str, Grow] = {}
        for name, shape in outputs.items():
            staging = self._staging[name]
            if shape is None:
                allocations[name] = staging.reserve
            else:
                nbytes = count_bytes(shape, self._dtypes[name])
                self._context.set_address(name, staging.reserve(nbytes))
        return _merge_shapes(outputs, self._context.enqueue(stream, allocations))

    # -- a call with tensors on the device --------------------------------------------------------

    def run_torch(self, feed: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Enqueue a call on the caller's current stream, without waiting or copying to the host.

        The tensors may be on another GPU; the results are on the engine's GPU.

        Raises:
            InputError: The engine has no profile for the shapes.
        """
        import torch

        shapes = {name: tuple(feed[name].shape) for name in self._engine.inputs}
        profile = self._context.profile_for(shapes)
        device = torch.device("cuda", self._index)
        caller = int(torch.cuda.current_stream(device).cuda_stream)
        # The memory of a lazily negated tensor contains the values before the negation.
        arguments = {name: feed[name].to(device).resolve_neg().contiguous() for name in shapes}
        if self._graph is not None:
            return self._replay_torch(arguments, device, caller)
        arguments = {name: _align_tensor(tensor) for name, tensor in arguments.items()}
        with self._take_turn(caller) as stream:
            outputs = self._context.set_shapes(profile, shapes, stream)
            for name, tensor in arguments.items():
                self._context.set_address(name, self._find_address(name, tensor))
            results: dict[str, torch.Tensor] = {}
            allocations: dict[str, Grow] = {}
            for name, shape in outputs.items():
                if shape is None:
                    allocations[name] = self._make_torch_allocator(
                        results, name, device, (caller, stream)
                    )
                else:
                    results[name] = self._torch_empty(name, shape, device)
                    self._context.set_address(name, self._find_address(name, results[name]))
            self._wait_for_caller(caller, stream)
            for name, shape in self._context.enqueue(stream, allocations).items():
                results[name] = self._torch_view(results[name], name, shape)
            return results

    def _replay_torch(
        self, arguments: Mapping[str, torch.Tensor], device: torch.device, caller: int
    ) -> dict[str, torch.Tensor]:
        """Run the CUDA graph on copies of the tensors, since the graph contains fixed addresses."""
        shapes = _static_shapes(self._engine.outputs)
        results = {name: self._torch_empty(name, shape, device) for name, shape in shapes.items()}
        with self._take_turn(caller) as stream:
            self._wait_for_caller(caller, stream)
            for name, tensor in arguments.items():
                target = self._staging[name].device
                copy_async(target, tensor.data_ptr(), tensor.nbytes, "DeviceToDevice", stream)
            cuda.call("cudaGraphLaunch", self._graph, stream)
            for name, tensor in results.items():
                source = self._staging[name].device
                copy_async(tensor.data_ptr(), source, tensor.nbytes, "DeviceToDevice", stream)
        return results

    def _find_address(self, name: str, tensor: torch.Tensor) -> int:
        # An empty tensor has address 0, which TensorRT rejects.
        return tensor.data_ptr() or self._staging[name].reserve(1)

    def _torch_empty(self, name: str, shape: Shape, device: torch.device) -> torch.Tensor:
        import torch

        return torch.empty(shape, dtype=getattr(torch, self._dtypes[name].name), device=device)

    def _make_torch_allocator(
        self,
        results: dict[str, torch.Tensor],
        name: str,
        device: torch.device,
        streams: tuple[int, int],
    ) -> Grow:
        import torch

        def grow(nbytes: int) -> int:
            results[name] = torch.empty(nbytes, dtype=torch.uint8, device=device)
            self._wait_for_caller(*streams)
            return results[name].data_ptr()

        return grow

    def _torch_view(self, memory: torch.Tensor, name: str, shape: Shape) -> torch.Tensor:
        import torch

        nbytes = count_bytes(shape, self._dtypes[name])
        return memory[:nbytes].view(getattr(torch, self._dtypes[name].name)).view(shape)

    # -- recording a CUDA graph, and freeing all resources ----------------------------------------

    def _record_graph(self) -> cudart.cudaGraphExec_t:
        """Run the engine on zeros; then record this work as a CUDA graph, and return the graph."""
        cudart = cuda.runtime()
        shapes = _static_shapes(self._engine.inputs)
        with self._take_turn(self._stream) as stream:
            for name, shape in shapes.items():
                nbytes = count_bytes(shape, self._dtypes[name])
                address = self._staging[name].reserve(nbytes)
                cuda.call("cudaMemsetAsync", address, 0, nbytes, stream)
            # The first call allocates memory, which cannot be recorded.
            self._launch_on_staging(0, shapes, stream)
            cuda.call("cudaStreamSynchronize", stream)
            # In this mode, other threads may call CUDA during the recording.
            mode = cudart.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
            cuda.call("cudaStreamBeginCapture", stream, mode)
            try:
                self._context.enqueue(stream, {})
            except RuntimeError:  # a stream that still records rejects all other work
                with suppress(RuntimeError):
                    cuda.call("cudaStreamEndCapture", stream)
                raise
            graph = cuda.call("cudaStreamEndCapture", stream)
            recorded = cuda.call("cudaGraphInstantiate", graph, 0)
            cuda.call("cudaGraphDestroy", graph)
            return recorded

    def close(self) -> None:
        """Wait for the last call, then free all resources."""
        with cuda.on_device(self._index):
            cuda.call("cudaEventSynchronize", self._done)
            if self._graph is not None:
                cuda.call("cudaGraphExecDestroy", self._graph)
            del self._context  # before the memory, whose addresses it contains
            for staging in self._staging.values():
                staging.free()
            cuda.call("cudaEventDestroy", self._ready)
            cuda.call("cudaEventDestroy", self._done)
            cuda.call("cudaStreamDestroy", self._stream)


def _static_shapes(tensors: Mapping[str, Tensor]) -> dict[str, Shape]:
    return {name: tensor.spec.dims for name, tensor in tensors.items()}  # type: ignore[misc]  # all ints


def _merge_shapes(
    outputs: Mapping[str, Shape | None], reported: Mapping[str, Shape]
) -> dict[str, Shape]:
    return {name: reported[name] if shape is None else shape for name, shape in outputs.items()}


def _align_tensor(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone() if tensor.data_ptr() % ALIGNMENT_BYTES else tensor
