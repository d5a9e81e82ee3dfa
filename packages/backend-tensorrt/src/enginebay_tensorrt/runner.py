"""The resources of one call at a time: an execution context, a stream and memory."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from enginebay.authors import numpy_dtype
from enginebay.errors import ConversionError
from enginebay_tensorrt import cuda
from enginebay_tensorrt.context import Context
from enginebay_tensorrt.staging import Staging, copy, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import torch

    from enginebay.authors import NumpyArray
    from enginebay_tensorrt.context import Grow, Shape
    from enginebay_tensorrt.engine import Engine, Tensor

#: The alignment in bytes that TensorRT requires. Memory as allocated has it, a view may not.
ALIGNMENT = 256


class Runner:
    """Runs calls one after the other.

    Each call writes the context's memory, so a call on another stream makes that stream wait for
    the call before; nothing waits on the host.

    Args:
        engine: The engine.
        as_graph: Record the engine's work once and replay it; every shape must be fixed.

    Raises:
        ConversionError: The engine's work cannot be recorded.
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
            self._stream = int(cuda.call("cudaStreamCreateWithFlags", cudart.cudaStreamNonBlocking))
            self._ready, self._done = (
                cuda.call("cudaEventCreateWithFlags", cudart.cudaEventDisableTiming)
                for _ in range(2)
            )
        if as_graph:
            try:
                self._graph = self._record()
            except RuntimeError as err:
                with suppress(RuntimeError):
                    self.close()
                raise ConversionError(
                    f"the engine cannot be recorded as a CUDA graph: {err}",
                    hint="convert it again without --cuda-graph",
                ) from err

    def watch(self, profiler: Any) -> None:
        """Report the layers' times of every call to an ``IProfiler``."""
        self._context.watch(profiler)

    @contextmanager
    def _turn(self, caller: int) -> Iterator[int]:
        """Yield the stream for a call's work, which follows the last call's.

        It is the caller's own, or else the caller's waits for it. On the default stream TensorRT
        would wait on the host, so the runner's stream takes its place.
        """
        stream = caller or self._stream
        with (
            cuda.on_device(self._index),
            self._engine.library.logger.collecting() as self._context.errors,
        ):
            # An event that was never recorded is complete, so the first call waits for nothing.
            cuda.call("cudaStreamWaitEvent", stream, self._done, 0)
            try:
                yield stream
            except BaseException:
                with suppress(RuntimeError):  # CUDA may be past repair; the cause is raised
                    self._end(stream, caller)
                raise
            self._end(stream, caller)

    def _end(self, stream: int, caller: int) -> None:
        cuda.call("cudaEventRecord", self._done, stream)
        if stream != caller:
            cuda.call("cudaStreamWaitEvent", caller, self._done, 0)

    def _follow(self, caller: int, stream: int) -> None:
        """Make a stream wait for the work that is on the caller's stream by now.

        Memory from torch is free for new work on the caller's stream only, so this comes after
        the last piece was allocated.
        """
        if stream != caller:
            cuda.call("cudaEventRecord", self._ready, caller)
            cuda.call("cudaStreamWaitEvent", stream, self._ready, 0)

    # -- a call with arrays on the host -----------------------------------------------------------

    def run(self, feed: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """Run a call through pinned memory and wait for the result.

        Raises:
            InputError: The engine has no profile for the shapes.
        """
        shapes = {name: feed[name].shape for name in self._engine.inputs}
        profile = self._context.profile_for(shapes)
        with self._turn(self._stream) as stream:
            for name in self._engine.inputs:
                self._staging[name].upload(feed[name], stream)
            found = self._launch_on_staging(profile, shapes, stream)
            for name, shape in found.items():
                self._staging[name].download(size_of(shape, self._dtypes[name]), stream)
            cuda.call("cudaStreamSynchronize", stream)
            return {n: self._staging[n].read(s, self._dtypes[n]) for n, s in found.items()}

    def _launch_on_staging(
        self, profile: int, shapes: Mapping[str, Shape], stream: int
    ) -> dict[str, Shape]:
        if self._graph is not None:
            cuda.call("cudaGraphLaunch", self._graph, stream)
            return _static(self._engine.outputs)
        outputs = self._context.set_shapes(profile, shapes, stream)
        for name in shapes:
            self._context.set_address(name, self._staging[name].device)
        room: dict[str, Grow] = {}
        for name, shape in outputs.items():
            staging = self._staging[name]
            if shape is None:
                room[name] = staging.reserve
            else:
                nbytes = size_of(shape, self._dtypes[name])
                self._context.set_address(name, staging.reserve(nbytes))
        return _with_found(outputs, self._context.enqueue(stream, room))

    # -- a call with tensors on the device --------------------------------------------------------

    def run_torch(self, feed: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Enqueue a call on the caller's current stream, without a copy to the host or a wait.

        The tensors may be on another GPU; the results are on the engine's.

        Raises:
            InputError: The engine has no profile for the shapes.
        """
        import torch

        shapes = {name: tuple(feed[name].shape) for name in self._engine.inputs}
        profile = self._context.profile_for(shapes)
        device = torch.device("cuda", self._index)
        caller = int(torch.cuda.current_stream(device).cuda_stream)
        kept = {name: feed[name].to(device).resolve_neg().contiguous() for name in shapes}
        if self._graph is not None:
            return self._replay_torch(kept, device, caller)
        kept = {name: _aligned(tensor) for name, tensor in kept.items()}
        with self._turn(caller) as stream:
            outputs = self._context.set_shapes(profile, shapes, stream)
            for name, tensor in kept.items():
                self._context.set_address(name, self._address(name, tensor))
            made: dict[str, torch.Tensor] = {}
            room: dict[str, Grow] = {}
            for name, shape in outputs.items():
                if shape is None:
                    room[name] = self._torch_room(made, name, device, (caller, stream))
                else:
                    made[name] = self._torch_empty(name, shape, device)
                    self._context.set_address(name, self._address(name, made[name]))
            self._follow(caller, stream)
            for name, shape in self._context.enqueue(stream, room).items():
                made[name] = self._torch_view(made[name], name, shape)
            return made

    def _replay_torch(
        self, kept: Mapping[str, torch.Tensor], device: torch.device, caller: int
    ) -> dict[str, torch.Tensor]:
        """Launch the CUDA graph on copies of tensors, since the graph's addresses are fixed."""
        shapes = _static(self._engine.outputs)
        made = {name: self._torch_empty(name, shape, device) for name, shape in shapes.items()}
        with self._turn(caller) as stream:
            self._follow(caller, stream)
            for name, tensor in kept.items():
                target = self._staging[name].device
                copy(target, tensor.data_ptr(), tensor.nbytes, "DeviceToDevice", stream)
            cuda.call("cudaGraphLaunch", self._graph, stream)
            for name, tensor in made.items():
                source = self._staging[name].device
                copy(tensor.data_ptr(), source, tensor.nbytes, "DeviceToDevice", stream)
        return made

    def _address(self, name: str, tensor: torch.Tensor) -> int:
        """Return a tensor's address."""
        # An empty one has none, and TensorRT refuses null.
        return tensor.data_ptr() or self._staging[name].reserve(1)

    def _torch_empty(self, name: str, shape: Shape, device: torch.device) -> torch.Tensor:
        import torch

        return torch.empty(shape, dtype=getattr(torch, self._dtypes[name].name), device=device)

    def _torch_room(
        self,
        made: dict[str, torch.Tensor],
        name: str,
        device: torch.device,
        streams: tuple[int, int],
    ) -> Grow:
        """Return a function that reserves an output's memory with torch's allocator."""
        import torch

        def grow(nbytes: int) -> int:
            made[name] = torch.empty(nbytes, dtype=torch.uint8, device=device)
            self._follow(*streams)
            return made[name].data_ptr()

        return grow

    def _torch_view(self, memory: torch.Tensor, name: str, shape: Shape) -> torch.Tensor:
        import torch

        nbytes = size_of(shape, self._dtypes[name])
        return memory[:nbytes].view(getattr(torch, self._dtypes[name].name)).view(shape)

    # -- CUDA graphs, and the end -----------------------------------------------------------------

    def _record(self) -> Any:
        """Run once on zeros, then once more into a CUDA graph."""
        cudart = cuda.runtime()
        shapes = _static(self._engine.inputs)
        with self._turn(self._stream) as stream:
            for name, shape in shapes.items():
                nbytes = size_of(shape, self._dtypes[name])
                address = self._staging[name].reserve(nbytes)
                cuda.call("cudaMemsetAsync", address, 0, nbytes, stream)
            # The first call allocates, which cannot be recorded.
            self._launch_on_staging(0, shapes, stream)
            cuda.call("cudaStreamSynchronize", stream)
            mode = cudart.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
            cuda.call("cudaStreamBeginCapture", stream, mode)
            try:
                self._context.enqueue(stream, {})
            except RuntimeError:
                with suppress(RuntimeError):
                    cuda.call("cudaStreamEndCapture", stream)
                raise
            graph = cuda.call("cudaStreamEndCapture", stream)
            recorded = cuda.call("cudaGraphInstantiate", graph, 0)
            cuda.call("cudaGraphDestroy", graph)
            return recorded

    def close(self) -> None:
        """Wait for the last call, then free everything."""
        with cuda.on_device(self._index):
            cuda.call("cudaEventSynchronize", self._done)
            if self._graph is not None:
                cuda.call("cudaGraphExecDestroy", self._graph)
            del self._context
            for staging in self._staging.values():
                staging.free()
            cuda.call("cudaEventDestroy", self._ready)
            cuda.call("cudaEventDestroy", self._done)
            cuda.call("cudaStreamDestroy", self._stream)


def _static(tensors: Mapping[str, Tensor]) -> dict[str, Shape]:
    """Return the shapes of tensors whose shapes are all fixed."""
    return {name: tensor.spec.dims for name, tensor in tensors.items()}  # type: ignore[misc]  # all ints


def _with_found(
    outputs: Mapping[str, Shape | None], found: Mapping[str, Shape]
) -> dict[str, Shape]:
    return {name: found[name] if shape is None else shape for name, shape in outputs.items()}


def _aligned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone() if tensor.data_ptr() % ALIGNMENT else tensor
