"""TensorRT's execution context: profiles, shapes, addresses and the launch of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import InputError
from enginebay_tensorrt.logger import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay_tensorrt.engine import Engine

    Shape = tuple[int, ...]
    #: Reserves a number of bytes and returns the address on the device.
    Grow = Callable[[int], int]


class Allocator:
    """Memory for an output whose shape depends on the data.

    The bindings keep each allocator that a context ever got for as long as the context lives, so
    there is one for each output, which uses the memory of the current call.

    Attributes:
        grow: Reserves the call's memory; None between calls, so that it is not kept.
        shape: The output's shape; known once the call has been enqueued.
        error: The exception of ``grow``, which cannot pass through TensorRT.
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
        alignment: int,  # noqa: ARG002  # CUDA's allocators align to 256 bytes, TensorRT wants that
        stream: int,  # noqa: ARG002
    ) -> int:
        """Return the address of memory for the output; 0 where there is none."""
        try:
            return self.grow(int(size)) if self.grow else 0
        except Exception as err:  # noqa: BLE001  # raised again by whoever enqueued
            self.error = err
            return 0

    def notify_shape(self, tensor_name: str, shape: object) -> None:  # noqa: ARG002
        """Store the shape, which TensorRT reports as soon as it is known."""
        self.shape = tuple(int(dim) for dim in shape)  # type: ignore[attr-defined]  # trt.Dims


class Context:
    """An ``IExecutionContext`` that raises an error with TensorRT's reason where a call fails.

    Args:
        engine: The engine; its device must be the calling thread's.

    Attributes:
        errors: The list that collects what TensorRT logs during a call, set by the caller.

    Raises:
        RuntimeError: There is no memory for another one.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.errors: list[str] = []
        with engine.library.logger.collecting() as self.errors:
            self._raw = engine.cuda_engine.create_execution_context()
            if self._raw is None:
                raise RuntimeError(
                    f"TensorRT has no memory for another execution context: {reason(self.errors)}"
                )
        self._allocators: dict[str, Allocator] = {}

    def watch(self, profiler: Any) -> None:
        """Report the layers' times to a profiler once each call was enqueued; that waits for it."""
        self._raw.profiler = profiler
        self._raw.enqueue_emits_profile = True

    def profile_for(self, shapes: Mapping[str, Shape]) -> int:
        """Return the profile in use if it takes the shapes, else the first that does.

        Raises:
            InputError: No profile takes them.
        """
        current = self._raw.active_optimization_profile
        numbers = range(self._engine.cuda_engine.num_optimization_profiles)
        for number in sorted(numbers, key=lambda n: (n != current, n)):
            if all(self._takes(name, number, shape) for name, shape in shapes.items()):
                return number
        raise InputError(self._no_profile_message(shapes))

    def _takes(self, name: str, number: int, shape: Shape) -> bool:
        smallest, largest = self._engine.inputs[name].profiles[number]
        return all(
            low <= size <= high for low, size, high in zip(smallest, shape, largest, strict=True)
        )

    def _no_profile_message(self, shapes: Mapping[str, Shape]) -> str:
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

    def set_shapes(
        self, profile: int, shapes: Mapping[str, Shape], stream: int
    ) -> dict[str, Shape | None]:
        """Set the inputs' shapes and return the outputs': None for one that depends on the data."""
        if profile != self._raw.active_optimization_profile:
            done = self._raw.set_optimization_profile_async(profile, stream)
            self._check(done, f"optimisation profile {profile}")
        for name, shape in shapes.items():
            self._check(self._raw.set_input_shape(name, shape), f"shape {shape} of input '{name}'")
        missing = self._raw.infer_shapes()
        if missing:
            raise RuntimeError(f"TensorRT lacks the shapes of {', '.join(missing)}")
        found = {}
        for name in self._engine.outputs:
            dims = tuple(int(dim) for dim in self._raw.get_tensor_shape(name))
            found[name] = None if -1 in dims else dims
        return found

    def set_address(self, name: str, address: int) -> None:
        """Set the address of an input or output on the device."""
        self._check(self._raw.set_tensor_address(name, address), f"the address of '{name}'")

    def enqueue(self, stream: int, room: Mapping[str, Grow]) -> dict[str, Shape]:
        """Put the engine's work on a stream.

        Args:
            stream: Its handle.
            room: Memory for each output whose shape depends on the data.

        Returns:
            The shapes of these outputs.
        """
        allocators = {name: self._allocator(name) for name in room}
        for name, allocator in allocators.items():
            allocator.grow, allocator.error = room[name], None
        try:
            done = self._raw.execute_async_v3(stream)
        finally:
            for allocator in allocators.values():
                allocator.grow = None
        for allocator in allocators.values():
            if allocator.error is not None:
                raise allocator.error
        if not done:
            raise RuntimeError(reason(self.errors))
        return {name: allocator.shape for name, allocator in allocators.items()}

    def _allocator(self, name: str) -> Allocator:
        if name not in self._allocators:
            made = self._engine.library.derived(Allocator)()
            self._check(self._raw.set_output_allocator(name, made), f"an allocator for '{name}'")
            self._allocators[name] = made
        return self._allocators[name]

    def _check(self, done: bool, what: str) -> None:
        if not done:
            raise RuntimeError(f"TensorRT refuses {what}: {reason(self.errors)}")
