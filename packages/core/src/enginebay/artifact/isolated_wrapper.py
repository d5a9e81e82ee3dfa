"""Wrapper that runs an artifact's engine in a child process.

A crash of the engine ends only the child process, and raises an error in this process. The inputs
and outputs of each call are copied through a socket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.artifact.engine_request import LoadRequest  # noqa: TC001  # the child decodes it by annotation
from enginebay.inference import Receipt, Wrapper
from enginebay.isolation import Worker
from enginebay.tensors import PackedArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay.tensors import NumpyArray

#: The function that is called in the child process.
_SERVE = "enginebay.artifact.isolated_wrapper:serve_engine"
#: The time limit of loading, and of each call.
_TIMEOUT_SECONDS = 1800.0


class IsolatedWrapper(Wrapper):
    """A wrapper whose engine runs in a child process.

    Args:
        request: The request that loads the engine.

    Raises:
        ChildCrashedError: The child process crashed when it loaded the engine.
        ChildTimeoutError: Loading the engine exceeded the time limit.
        EnginebayError: Loading the engine raised this error.
    """

    def __init__(self, request: LoadRequest) -> None:
        self._worker = Worker(f"the engine of backend '{request.backend}'", _SERVE, request)
        try:
            self._worker.receive(_TIMEOUT_SECONDS)
            self._worker.send(b"")  # an empty message requests the receipt
            self._receipt = msgspec.msgpack.decode(
                self._worker.receive(_TIMEOUT_SECONDS), type=Receipt
            )
        # The caller has no wrapper to close: the child process would stay.
        except BaseException:
            self._worker.close()
            raise
        super().__init__(inputs=request.inputs, outputs=request.outputs)

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Send the inputs to the child process, and return the outputs that it computes."""
        packed = {name: PackedArray.of(array) for name, array in feed.items()}
        self._worker.send(msgspec.msgpack.encode(packed))
        reply = self._worker.receive(_TIMEOUT_SECONDS)
        return [output.array() for output in msgspec.msgpack.decode(reply, type=list[PackedArray])]

    @property
    def receipt(self) -> Receipt:
        """The receipt of the engine in the child process."""
        return self._receipt

    def release(self) -> None:
        """End the child process."""
        self._worker.close()


def serve_engine(request: LoadRequest) -> Callable[[bytes], bytes]:
    """Load an engine in the child process, and return a function that answers messages.

    The function takes the encoded inputs of a call, and returns the encoded outputs. For an empty
    message, it returns the engine's receipt.
    """
    wrapper = request.load()

    def reply_to(message: bytes) -> bytes:
        if not message:  # the request for the receipt
            return msgspec.msgpack.encode(wrapper.receipt)
        packed = msgspec.msgpack.decode(message, type=dict[str, PackedArray])
        outputs = wrapper({name: packed_input.array() for name, packed_input in packed.items()})
        return msgspec.msgpack.encode([PackedArray.of(array) for array in outputs.values()])

    return reply_to
