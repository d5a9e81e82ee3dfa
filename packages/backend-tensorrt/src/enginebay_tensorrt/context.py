"""TensorRT's execution context: the optimisation profile, shapes and addresses of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import InputError
from enginebay_tensorrt.logger import join_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import tensorrt as trt

    from enginebay_tensorrt.engine import Engine

    Shape = tuple[int, ...]
    #: Reserves a number of bytes and returns the address on the device.
    Grow = Callable[[int], int]


class Allocator:
    """Allocates memory for an output whose shape depends on the data.

    Attributes:
        grow: The function that allocates memory for the current call; None between calls, so that
            the memory of a call can be freed.
        shape: The output's shape, which is known after the call has been enqueued.
        error: The exception that ``grow`` raised, stored because TensorRT cannot forward it.
    """

    interface = "IOutputAllocator"

    def __init__(self) -> None:
        super().__init__()
        self.grow: Grow | None = None
        self.shape: Shape = ()
        self.error: Exception | None = None

    def reallocate_output_async(
        self,
        tensor_name: str,  # noqa: ARG002  # TensorRT's signature
        memory: int,  # noqa: ARG002
        size: int,
        alignment: int,  # noqa: ARG002  # CUDA's allocators align to 256 bytes, as TensorRT requires
        stream: int,  # noqa: ARG002
    ) -> int:
        """Allocate memory for the output and return its address; return 0 if that fails."""
        try:
            return self.grow(int(size)) if self.grow else 0
        except Exception as err:  # noqa: BLE001  # raised again by enqueue
            self.error = err
            return 0

    def notify_shape(self, tensor_name: str, shape: object) -> None:  # noqa: ARG002
        """Store the output's shape; TensorRT calls this as soon as the shape is known."""
        self.shape = tuple(int(dim) for dim in shape)  # type: ignore[attr-defined]  # trt.Dims


class Context:
    """An ``IExecutionContext`` whose methods raise an error with TensorRT's message if they fail.

    Args:
        engine: The engine; its GPU must be the current device of the calling thread.

    Attributes:
        errors: The errors that TensorRT logs during the current call; the caller assigns this list.

    Raises:
        RuntimeError: There is no memory for another context.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.errors: list[str] = []
        with engine.library.logger.collecting() as self.errors:
            self._raw = engine.cuda_engine.create_execution_context()
            if self._raw is None:
                raise RuntimeError(
                    "TensorRT has no memory for another execution context: "
                    f"{join_errors(self.errors)}"
                )
        self._allocators: dict[str, Allocator] = {}

    def watch(self, profiler: trt.IProfiler) -> None:
        """Report the layer times of all later inference calls to a profiler.

        Each of these calls blocks until the engine has finished.
        """
        self._raw.profiler = profiler
        self._raw.enqueue_emits_profile = True

    def profile_for(self, shapes: Mapping[str, Shape]) -> int:
        """Return the index of an optimisation profile that includes the shapes.

        If several profiles include the shapes, prefer the current profile.

        Raises:
            InputError: No optimisation profile includes the shapes.
        """
        current = self._raw.active_optimization_profile
        indices = range(self._engine.cuda_engine.num_optimization_profiles)
        # The current profile first: changing the profile is additional work on the stream.
        for index in sorted(indices, key=lambda index: (index != current, index)):
            if all(self._includes(name, index, shape) for name, shape in shapes.items()):
                return index
        raise InputError(self._no_profile_message(shapes))

    def _includes(self, name: str, index: int, shape: Shape) -> bool:
        smallest, largest = self._engine.inputs[name].profiles[index]
        return all(
            low <= size <= high for low, size, high in zip(smallest, shape, largest, strict=True)
        )

    def _no_profile_message(self, shapes: Mapping[str, Shape]) -> str:
        shapes_text = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        ranges = {
            f"{name} {smallest} to {largest}"
            for name, tensor in self._engine.inputs.items()
            for smallest, largest in tensor.profiles
            if smallest != largest
        }
        return (
            f"the engine was not built for {shapes_text}: "
            f"its profiles include {', '.join(sorted(ranges))}"
        )

    def set_shapes(
        self, profile: int, shapes: Mapping[str, Shape], stream: int
    ) -> dict[str, Shape | None]:
        """Set the optimisation profile and the input shapes; return the output shapes by name.

        The shape of an output is None if it depends on the data.
        """
        if profile != self._raw.active_optimization_profile:
            done = self._raw.set_optimization_profile_async(profile, stream)
            self._check(done, f"optimisation profile {profile}")
        for name, shape in shapes.items():
            self._check(self._raw.set_input_shape(name, shape), f"shape {shape} of input '{name}'")
        missing = self._raw.infer_shapes()
        if missing:
            raise RuntimeError(f"TensorRT cannot infer the shapes of {', '.join(missing)}")
        outputs: dict[str, Shape | None] = {}
        for name in self._engine.outputs:
            dims = tuple(int(dim) for dim in self._raw.get_tensor_shape(name))
            outputs[name] = None if -1 in dims else dims
        return outputs

    def set_address(self, name: str, address: int) -> None:
        """Set the GPU address of an input or output."""
        self._check(self._raw.set_tensor_address(name, address), f"the address of '{name}'")

    def enqueue(self, stream: int, allocations: Mapping[str, Grow]) -> dict[str, Shape]:
        """Enqueue the engine's work on a stream.

        Args:
            stream: The handle of the stream.
            allocations: For each output whose shape depends on the data, a function that allocates
                its memory.

        Returns:
            The shapes of the outputs in ``allocations``, by name.
        """
        allocators = {name: self._allocator(name) for name in allocations}
        for name, allocator in allocators.items():
            allocator.grow, allocator.error = allocations[name], None
        try:
            done = self._raw.execute_async_v3(stream)
        finally:
            for allocator in allocators.values():
                allocator.grow = None  # it holds the results of this call
        for allocator in allocators.values():
            if allocator.error is not None:
                raise allocator.error
        if not done:
            raise RuntimeError(join_errors(self.errors))
        return {name: allocator.shape for name, allocator in allocators.items()}

    def _allocator(self, name: str) -> Allocator:
        # Only one for each output: the bindings never free an allocator before its context.
        if name not in self._allocators:
            allocator = self._engine.library.derive(Allocator)()
            accepted = self._raw.set_output_allocator(name, allocator)
            self._check(accepted, f"an allocator for '{name}'")
            self._allocators[name] = allocator
        return self._allocators[name]

    def _check(self, done: bool, what: str) -> None:
        if not done:
            raise RuntimeError(f"TensorRT rejects {what}: {join_errors(self.errors)}")
