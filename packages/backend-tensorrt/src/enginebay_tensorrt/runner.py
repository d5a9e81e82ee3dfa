"""One execution context: what a call has to itself while it runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from enginebay.arrays import numpy_dtype
from enginebay.errors import InputError
from enginebay_tensorrt import cuda
from enginebay_tensorrt.bindings import trt
from enginebay_tensorrt.logger import LOGGER, reason
from enginebay_tensorrt.staging import Staging, copy, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from enginebay.arrays import NumpyArray
    from enginebay_tensorrt.engine import Engine

    Shape = tuple[int, ...]


class Allocator(trt.IOutputAllocator):  # type: ignore[misc]  # tensorrt has no types
    """Memory for an output whose shape depends on the data.

    Args:
        grow: Makes room for so many bytes and answers the address on the device.

    Attributes:
        shape: What TensorRT found; known once the call has been enqueued.
    """

    def __init__(self, grow: Callable[[int], int]) -> None:
        trt.IOutputAllocator.__init__(self)
        self.shape: Shape = ()
        self._grow = grow

    def reallocate_output_async(
        self,
        tensor_name: str,  # noqa: ARG002  # TensorRT's signature
        memory: int,  # noqa: ARG002
        size: int,
        alignment: int,  # noqa: ARG002  # CUDA's allocators align to 256 bytes, TensorRT wants that
        stream: int,  # noqa: ARG002
    ) -> int:
        """Room for the output."""
        return self._grow(int(size))

    def notify_shape(self, tensor_name: str, shape: Any) -> None:  # noqa: ARG002
        """The shape, as soon as TensorRT knows it."""
        self.shape = tuple(int(dim) for dim in shape)


class Runner:
    """Runs calls one after the other.

    A context's memory is written by each of its calls, so a call on another stream first has that
    stream wait for the call before; nothing waits on the host.

    Args:
        engine: The engine.
        as_graph: Record the engine's work once and replay it; every shape must be fixed.
    """

    def __init__(self, engine: Engine, *, as_graph: bool = False) -> None:
        cudart = cuda.runtime()
        self._engine = engine
        self._context = engine.cuda_engine.create_execution_context()
        if self._context is None:
            raise RuntimeError("TensorRT has no memory for another execution context")
        self._stream = int(cuda.call("cudaStreamCreateWithFlags", cudart.cudaStreamNonBlocking))
        self._done = cuda.call("cudaEventCreateWithFlags", cudart.cudaEventDisableTiming)
        self._staging = {name: Staging() for name in (*engine.inputs, *engine.outputs)}
        self._dtypes = {t.spec.name: numpy_dtype(t.spec.dtype) for t in engine.outputs.values()}
        self._allocators: dict[str, Allocator] = {}
        self._graph = self._record() if as_graph else None

    # -- a call with arrays on the host -----------------------------------------------------------

    def run(self, feed: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """One call through pinned memory; waits for the result."""
        with cuda.on_device(self._engine.device.index):
            self._begin(self._stream)
            for name in self._engine.inputs:
                self._staging[name].upload(feed[name], self._stream)
            shapes = {name: feed[name].shape for name in self._engine.inputs}
            found = self._launch_on_staging(shapes, self._stream)
            for name, shape in found.items():
                nbytes = size_of(shape, self._dtypes[name])
                self._staging[name].download(nbytes, self._stream)
            cuda.call("cudaStreamSynchronize", self._stream)
            return {n: self._staging[n].read(s, self._dtypes[n]) for n, s in found.items()}

    def _launch_on_staging(self, shapes: Mapping[str, Shape], stream: int) -> dict[str, Shape]:
        if self._graph is not None:
            cuda.call("cudaGraphLaunch", self._graph, stream)
            self._end(stream)
            return {name: t.spec.dims for name, t in self._engine.outputs.items()}  # type: ignore[misc]  # static
        outputs = self._set_shapes(shapes, stream)
        for name in self._engine.inputs:
            self._context.set_tensor_address(name, self._staging[name].device)
        allocators = {}
        for name, shape in outputs.items():
            staging = self._staging[name]
            if shape is None:
                allocators[name] = self._set_allocator(name, staging.reserve)
            else:
                address = staging.reserve(size_of(shape, self._dtypes[name]))
                self._context.set_tensor_address(name, address)
        self._enqueue(stream)
        self._end(stream)
        return _settled(outputs, allocators)

    # -- a call with tensors on the device --------------------------------------------------------

    def run_torch(self, feed: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """One call on the caller's current stream; nothing is copied to the host or waited for.

        The tensors may be on another GPU; the results are on the engine's.
        """
        import torch

        device = torch.device("cuda", self._engine.device.index)
        stream = int(torch.cuda.current_stream(device).cuda_stream)
        kept = {n: feed[n].to(device).contiguous() for n in self._engine.inputs}
        with cuda.on_device(self._engine.device.index):
            self._begin(stream)
            if self._graph is not None:
                return self._replay_torch(kept, stream)
            outputs = self._set_shapes({n: tuple(t.shape) for n, t in kept.items()}, stream)
            for name, tensor in kept.items():
                # An empty tensor has no address, and TensorRT takes no null.
                address = tensor.data_ptr() or self._staging[name].reserve(1)
                self._context.set_tensor_address(name, address)
            made: dict[str, torch.Tensor] = {}
            allocators = {}
            for name, shape in outputs.items():
                if shape is None:
                    allocators[name] = self._set_allocator(name, _torch_grow(made, name, device))
                    continue
                made[name] = self._torch_empty(name, shape, device)
                address = made[name].data_ptr() or self._staging[name].reserve(1)
                self._context.set_tensor_address(name, address)
            self._enqueue(stream)
            self._end(stream)
            for name, allocator in allocators.items():
                made[name] = self._torch_view(made[name], name, allocator.shape)
            return made

    def _replay_torch(self, kept: Mapping[str, torch.Tensor], stream: int) -> dict[str, Any]:
        """A graph's addresses are fixed, so tensors are copied to and from them on the device."""
        for name, tensor in kept.items():
            copy(
                self._staging[name].device,
                tensor.data_ptr(),
                tensor.nbytes,
                "DeviceToDevice",
                stream,
            )
        device = next(iter(kept.values())).device
        shapes = self._launch_on_staging({}, stream)
        made = {name: self._torch_empty(name, shape, device) for name, shape in shapes.items()}
        for name, tensor in made.items():
            source = self._staging[name].device
            copy(tensor.data_ptr(), source, tensor.nbytes, "DeviceToDevice", stream)
        self._end(stream)
        return made

    def _torch_empty(self, name: str, shape: Shape, device: torch.device) -> torch.Tensor:
        import torch

        return torch.empty(shape, dtype=getattr(torch, self._dtypes[name].name), device=device)

    def _torch_view(self, memory: torch.Tensor, name: str, shape: Shape) -> torch.Tensor:
        import torch

        nbytes = size_of(shape, self._dtypes[name])
        return memory[:nbytes].view(getattr(torch, self._dtypes[name].name)).view(shape)

    # -- what both share --------------------------------------------------------------------------

    def _begin(self, stream: int) -> None:
        # An event that was never recorded is complete, so the first call waits for nothing.
        cuda.call("cudaStreamWaitEvent", stream, self._done, 0)

    def _end(self, stream: int) -> None:
        cuda.call("cudaEventRecord", self._done, stream)

    def _set_shapes(self, shapes: Mapping[str, Shape], stream: int) -> dict[str, Shape | None]:
        """Tell the context the inputs' shapes; None for an output that depends on the data."""
        profile = self._profile_for(shapes)
        if profile != self._context.active_optimization_profile:
            self._insist(self._context.set_optimization_profile_async(profile, stream))
        for name, shape in shapes.items():
            self._insist(self._context.set_input_shape(name, shape))
        missing = self._context.infer_shapes()
        if missing:
            raise RuntimeError(f"TensorRT lacks the shapes of {', '.join(missing)}")
        found = {}
        for name in self._engine.outputs:
            dims = tuple(int(dim) for dim in self._context.get_tensor_shape(name))
            found[name] = None if -1 in dims else dims
        return found

    def _profile_for(self, shapes: Mapping[str, Shape]) -> int:
        """The profile in use where it takes the shapes, else the first that does.

        Raises:
            InputError: None does.
        """
        current = self._context.active_optimization_profile
        numbers = range(self._engine.cuda_engine.num_optimization_profiles)
        for number in sorted(numbers, key=lambda n: (n != current, n)):
            if all(self._takes(name, number, shape) for name, shape in shapes.items()):
                return number
        raise InputError(self._no_profile(shapes))

    def _takes(self, name: str, number: int, shape: Shape) -> bool:
        smallest, largest = self._engine.inputs[name].profiles[number]
        return all(
            low <= size <= high for low, size, high in zip(smallest, shape, largest, strict=True)
        )

    def _no_profile(self, shapes: Mapping[str, Shape]) -> str:
        given = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        ranges = {
            f"{name} {smallest} to {largest}"
            for name, tensor in self._engine.inputs.items()
            for smallest, largest in tensor.profiles
            if smallest != largest
        }
        return (
            f"the engine was not built for {given}: its profiles take {', '.join(sorted(ranges))}"
        )

    def _set_allocator(self, name: str, grow: Callable[[int], int]) -> Allocator:
        # The context keeps its bare address until the next call sets another.
        self._allocators[name] = allocator = Allocator(grow)
        self._insist(self._context.set_output_allocator(name, allocator))
        return allocator

    def _enqueue(self, stream: int) -> None:
        with LOGGER.collecting() as errors:
            if not self._context.execute_async_v3(stream):
                raise RuntimeError(reason(errors))

    def _insist(self, done: bool) -> None:
        if not done:
            raise RuntimeError("TensorRT refuses the call's shapes or memory")

    def _record(self) -> Any:
        """Run once on zeros, which lets TensorRT settle, then once more into a CUDA graph."""
        cudart = cuda.runtime()
        with cuda.on_device(self._engine.device.index):
            shapes = {name: t.spec.dims for name, t in self._engine.inputs.items()}
            for name, tensor in self._engine.inputs.items():
                nbytes = math.prod(shapes[name]) * numpy_dtype(tensor.spec.dtype).itemsize  # type: ignore[arg-type]  # static
                address = self._staging[name].reserve(nbytes)
                cuda.call("cudaMemsetAsync", address, 0, nbytes, self._stream)
            self._graph = None
            self._launch_on_staging(shapes, self._stream)  # type: ignore[arg-type]  # static
            cuda.call("cudaStreamSynchronize", self._stream)
            mode = cudart.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
            cuda.call("cudaStreamBeginCapture", self._stream, mode)
            self._enqueue(self._stream)
            graph = cuda.call("cudaStreamEndCapture", self._stream)
            recorded = cuda.call("cudaGraphInstantiate", graph, 0)
            cuda.call("cudaGraphDestroy", graph)
            return recorded

    def close(self) -> None:
        """Wait for the last call, then give everything back."""
        with cuda.on_device(self._engine.device.index):
            cuda.call("cudaEventSynchronize", self._done)
            if self._graph is not None:
                cuda.call("cudaGraphExecDestroy", self._graph)
            del self._context
            for staging in self._staging.values():
                staging.free()
            cuda.call("cudaEventDestroy", self._done)
            cuda.call("cudaStreamDestroy", self._stream)


def _settled(
    outputs: Mapping[str, Shape | None], allocators: Mapping[str, Allocator]
) -> dict[str, Shape]:
    return {
        name: allocators[name].shape if shape is None else shape for name, shape in outputs.items()
    }


def _torch_grow(
    made: dict[str, torch.Tensor], name: str, device: torch.device
) -> Callable[[int], int]:
    """Room from torch's allocator, kept under the output's name."""
    import torch

    made[name] = torch.empty(0, dtype=torch.uint8, device=device)

    def grow(nbytes: int) -> int:
        made[name] = torch.empty(max(nbytes, 1), dtype=torch.uint8, device=device)
        return made[name].data_ptr()

    return grow
