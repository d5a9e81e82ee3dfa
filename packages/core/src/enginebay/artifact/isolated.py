"""An artifact's engine in a child process, behind the wrapper contract.

A crash of the engine ends the child, and the caller gets an error. Each call costs a copy of its
inputs and outputs through a socket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.artifact.request import LoadRequest  # noqa: TC001  # the child reads serve's annotations
from enginebay.inference import Receipt, Wrapper
from enginebay.isolation import Worker
from enginebay.tensors import PackedArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay.tensors import NumpyArray

#: The function that is called in the child process.
_SERVE = "enginebay.artifact.isolated:serve"
#: Seconds that loading may take, and each call.
_TIMEOUT = 1800.0


class IsolatedWrapper(Wrapper):
    """Runs an engine in a child process.

    Args:
        request: The engine.

    Raises:
        ChildCrashedError: Loading it took its process down.
        ChildTimeoutError: Loading it took too long.
        EnginebayError: Whatever loading it raised.
    """

    def __init__(self, request: LoadRequest) -> None:
        self._worker = Worker(f"the engine of backend '{request.backend}'", _SERVE, request)
        try:
            self._worker.receive(_TIMEOUT)
            self._worker.send(b"")
            self._receipt = msgspec.msgpack.decode(self._worker.receive(_TIMEOUT), type=Receipt)
        except BaseException:
            self._worker.close()
            raise
        super().__init__(inputs=request.inputs, outputs=request.outputs)

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Send the inputs to the child, and wait for the outputs."""
        packed = {name: PackedArray.of(array) for name, array in feed.items()}
        self._worker.send(msgspec.msgpack.encode(packed))
        reply = self._worker.receive(_TIMEOUT)
        return [each.array() for each in msgspec.msgpack.decode(reply, type=list[PackedArray])]

    @property
    def receipt(self) -> Receipt:
        """The engine's own."""
        return self._receipt

    def release(self) -> None:
        """End the child."""
        self._worker.close()


def serve(request: LoadRequest) -> Callable[[bytes], bytes]:
    """Load an engine in this process; called in a child process."""
    wrapper = request.load()

    def reply(message: bytes) -> bytes:
        if not message:
            return msgspec.msgpack.encode(wrapper.receipt)
        packed = msgspec.msgpack.decode(message, type=dict[str, PackedArray])
        outputs = wrapper({name: each.array() for name, each in packed.items()})
        return msgspec.msgpack.encode([PackedArray.of(array) for array in outputs.values()])

    return reply
