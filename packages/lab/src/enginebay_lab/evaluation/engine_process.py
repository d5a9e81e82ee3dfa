"""Runs an artifact's engine in a child process, so that a crash affects no other artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import isolation
from enginebay.authors.arrays import PackedArray
from enginebay.authors.artifacts import LoadRequest  # noqa: TC001 - the child process reads the annotations
from enginebay.errors import EnginebayError, InferenceError
from enginebay_lab.evaluation.item_reader import stack_arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from enginebay.authors.arrays import NumpyArray

    #: The inputs or outputs of one item, by name.
    Arrays = dict[str, NumpyArray]

#: The function that runs in the child process.
FUNCTION = "enginebay_lab.evaluation.engine_process:serve_engine"


class _StackedOutputs(msgspec.Struct, array_like=True):
    """The outputs of ``count`` consecutive items by name, stacked along a new first axis."""

    count: int
    outputs: dict[str, PackedArray]


class _EngineReply(msgspec.Struct, array_like=True):
    """The outputs of a chunk of items; or, if an item failed, the item's index and the error."""

    outputs: list[_StackedOutputs]
    index: int = 0
    failure: str | None = None


class ItemError(EnginebayError):
    """The engine raised an exception on an item.

    Attributes:
        index: The item's index in its chunk.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class EngineProcess:
    """An artifact's engine in a child process.

    Args:
        request: The engine's files and load options.
        timeout: Time limit in seconds for loading the engine, and again for each chunk of items.

    Attributes:
        backend: The backend's name.
    """

    def __init__(self, request: LoadRequest, timeout: float) -> None:
        self.backend = request.backend
        self._timeout = timeout
        self._loaded = False
        self._worker = isolation.Worker(request.backend, FUNCTION, request)

    def close(self) -> None:
        """End the child process."""
        self._worker.close()

    def send_inputs(self, chunk: Sequence[Mapping[str, NumpyArray]]) -> None:
        """Send a chunk of items with inputs of equal shapes; do not wait for the outputs."""
        message = {name: PackedArray.of(array) for name, array in stack_arrays(chunk).items()}
        self._worker.send(msgspec.msgpack.encode(message))

    def receive_outputs(self) -> list[Arrays]:
        """Wait for the outputs of the last chunk that was sent, and return each item's outputs.

        Raises:
            ItemError: The engine raised on an item.
            ChildCrashedError: The engine crashed its process.
            ChildTimeoutError: The engine exceeded its time limit.
            EnginebayError: The engine cannot be loaded.
        """
        if not self._loaded:
            self._worker.receive(self._timeout)  # the first reply: serve_engine has returned
            self._loaded = True
        reply = msgspec.msgpack.decode(self._worker.receive(self._timeout), type=_EngineReply)
        if reply.failure is not None:
            raise ItemError(reply.failure, reply.index)
        return [item for part in reply.outputs for item in _unstack(part.count, part.outputs)]


def serve_engine(request: LoadRequest) -> Callable[[bytes], bytes]:
    """Load an engine; called in the child process.

    Returns:
        A function that takes the encoded inputs of a chunk of items, and returns the encoded
        outputs.
    """
    wrapper = request.load()

    def run_chunk(message: bytes) -> bytes:
        stacked = msgspec.msgpack.decode(message, type=dict[str, PackedArray])
        # A model without inputs runs once.
        count = next(iter(stacked.values())).shape[0] if stacked else 1
        results = []
        for index, inputs in enumerate(_unstack(count, stacked)):
            try:
                results.append(wrapper(inputs))
            except EnginebayError as err:
                return msgspec.msgpack.encode(_EngineReply([], index, str(err)))
        return msgspec.msgpack.encode(_EngineReply(_stack_outputs(results)))

    return run_chunk


def _unstack(count: int, stacked: Mapping[str, PackedArray]) -> list[Arrays]:
    arrays = {name: packed.array() for name, packed in stacked.items()}
    return [{name: array[row] for name, array in arrays.items()} for row in range(count)]


def _stack_outputs(results: Sequence[Arrays]) -> list[_StackedOutputs]:
    """Return the outputs in stacks; a new stack begins where the shapes or dtypes change."""
    groups: list[list[Arrays]] = []
    last_shape: object = None
    for result in results:
        if any(array.dtype.kind in "OUS" for array in result.values()):
            raise InferenceError("an output contains strings, which metrics cannot compare")
        shape = {name: (array.dtype, array.shape) for name, array in result.items()}
        if shape != last_shape:
            groups.append([])
            last_shape = shape
        groups[-1].append(result)
    return [
        _StackedOutputs(
            len(group),
            {name: PackedArray.of(array) for name, array in stack_arrays(group).items()},
        )
        for group in groups
    ]
