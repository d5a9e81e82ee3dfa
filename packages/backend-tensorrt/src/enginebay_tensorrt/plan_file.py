"""The way of a plan from the builder to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from enginebay_tensorrt.library import Library
    from enginebay_tensorrt.monitor import Monitor


class PlanWriter:
    """Writes what the builder gives it, piece by piece, until the build is stopped.

    Args:
        file: The file to write.
        monitor: The build's: an error of the file stops the build, and is raised by who builds.
    """

    interface = "IStreamWriter"

    def __init__(self, file: BinaryIO, monitor: Monitor) -> None:
        super().__init__()
        self._file = file
        self._monitor = monitor

    def write(self, data: bytes | memoryview) -> int:
        """Write a piece; return its size, or 0 once the build is stopped."""
        # With 1.7.1 the return value and an exception change nothing: the builder goes on, and in
        # the end returns True.
        if self._monitor.interrupted is not None:
            return 0
        try:
            return self._file.write(data)
        except OSError as err:
            self._monitor.interrupted = err
            return 0


def write_plan(
    library: Library, builder: Any, network: Any, config: Any, file: BinaryIO, monitor: Monitor
) -> bool:
    """Build a network into a file.

    Returns:
        False if it cannot be built.
    """
    # Since 10.13. Without the whole plan beside the engine, BERT is built in 0.8 of the memory.
    if hasattr(builder, "build_serialized_network_to_stream"):
        writer = library.derived(PlanWriter)(file, monitor)
        return bool(builder.build_serialized_network_to_stream(network, config, writer))
    plan = builder.build_serialized_network(network, config)
    if plan is not None:
        file.write(memoryview(plan))
    return plan is not None
