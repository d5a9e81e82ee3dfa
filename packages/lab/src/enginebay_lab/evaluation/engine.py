"""An artifact's engine in a process of its own, where a crash takes nothing else down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.authors import (
    LoadRequest,  # the child reads serve's annotations
    PackedArray,
    Worker,
)
from enginebay.errors import EnginebayError, InferenceError
from enginebay_lab.evaluation.chunks import stacked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from enginebay.authors import NumpyArray

    Arrays = dict[str, NumpyArray]

#: The function that is called in the child process.
FUNCTION = "enginebay_lab.evaluation.engine:serve"


class _Outputs(msgspec.Struct, array_like=True):
    """The outputs of items that follow one another, one upon the other, and their number."""

    count: int
    outputs: dict[str, PackedArray]


class _EngineReply(msgspec.Struct, array_like=True):
    """The outputs of a chunk, or which of its items an engine failed on, and why."""

    outputs: list[_Outputs]
    index: int = 0
    failure: str | None = None


class ItemError(EnginebayError):
    """An engine failed on an item.

    Attributes:
        index: The item's place in its chunk.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class Engine:
    """An artifact that is loaded in a child process.

    Args:
        request: The engine's files and what they are loaded with.
        timeout: Seconds that loading may take, and each chunk of items.

    Attributes:
        backend: The backend's name.
    """

    def __init__(self, request: LoadRequest, timeout: float) -> None:
        self.backend = request.backend
        self._timeout = timeout
        self._loaded = False
        self._worker = Worker(request.backend, FUNCTION, request)

    def close(self) -> None:
        """End the process."""
        self._worker.close()

    def begin(self, chunk: Sequence[Mapping[str, NumpyArray]]) -> None:
        """Send sets of inputs, which have the same shapes; does not wait for their outputs."""
        message = {name: PackedArray.of(array) for name, array in stacked(chunk).items()}
        self._worker.send(msgspec.msgpack.encode(message))

    def finish(self) -> list[Arrays]:
        """The outputs for each set of inputs.

        Raises:
            ItemError: It failed on an item.
            ChildCrashedError: The engine took its process down.
            ChildTimeoutError: It took too long.
            EnginebayError: Whatever loading it raised.
        """
        if not self._loaded:
            self._worker.receive(self._timeout)
            self._loaded = True
        reply = msgspec.msgpack.decode(self._worker.receive(self._timeout), type=_EngineReply)
        if reply.failure is not None:
            raise ItemError(reply.failure, reply.index)
        return [outputs for part in reply.outputs for outputs in _rows(part.count, part.outputs)]


def serve(request: LoadRequest) -> Callable[[bytes], bytes]:
    """Load an engine in this process; called in a child process."""
    wrapper = request.load()

    def run(message: bytes) -> bytes:
        given = msgspec.msgpack.decode(message, type=dict[str, PackedArray])
        count = next(iter(given.values())).shape[0] if given else 1
        results = []
        for index, inputs in enumerate(_rows(count, given)):
            try:
                results.append(wrapper(inputs))
            except EnginebayError as err:
                return msgspec.msgpack.encode(_EngineReply([], index, str(err)))
        return msgspec.msgpack.encode(_EngineReply(_joined(results)))

    return run


def _rows(count: int, arrays: Mapping[str, PackedArray]) -> list[Arrays]:
    whole = {name: each.array() for name, each in arrays.items()}
    return [{name: array[row] for name, array in whole.items()} for row in range(count)]


def _joined(results: list[dict[str, Any]]) -> list[_Outputs]:
    """The outputs of all items; those that follow one another with equal shapes in one."""
    parts: list[list[dict[str, Any]]] = []
    before: Any = None
    for result in results:
        if any(array.dtype.kind in "OUS" for array in result.values()):
            raise InferenceError("an output holds texts, which have no value that can be compared")
        shape = {name: (array.dtype, array.shape) for name, array in result.items()}
        if shape != before:
            parts.append([])
            before = shape
        parts[-1].append(result)
    return [
        _Outputs(len(part), {name: PackedArray.of(array) for name, array in stacked(part).items()})
        for part in parts
    ]
