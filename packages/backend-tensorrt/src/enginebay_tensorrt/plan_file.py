"""Write the plan, a serialized engine, from the builder to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import tensorrt as trt

    from enginebay_tensorrt.library import Library
    from enginebay_tensorrt.monitor import Monitor


class PlanWriter:
    """Receives a serialized engine from TensorRT in parts, and writes them to a file.

    If the build is stopped, the remaining parts are not written.

    Args:
        file: The file to write.
        monitor: The monitor of the build, which stops the build if the file cannot be written.
    """

    interface = "IStreamWriter"

    def __init__(self, file: BinaryIO, monitor: Monitor) -> None:
        super().__init__()
        self._file = file
        self._monitor = monitor

    def write(self, data: bytes | memoryview) -> int:
        """Write the next bytes; return the number of bytes, or 0 if the build is stopped."""
        # TensorRT for RTX 1.7.1 ignores the returned size and exceptions: the builder continues,
        # and returns True at the end.
        if self._monitor.interrupted is not None:
            return 0
        try:
            return self._file.write(data)
        except OSError as err:
            self._monitor.interrupted = err
            return 0


def write_plan(
    library: Library,
    builder: trt.Builder,
    network: trt.INetworkDefinition,
    config: trt.IBuilderConfig,
    file: BinaryIO,
    monitor: Monitor,
) -> bool:
    """Build an engine and write it to a file; return False if the network cannot be built."""
    # New in 10.13. Streaming the plan saves a fifth of the memory of a BERT build.
    if hasattr(builder, "build_serialized_network_to_stream"):
        writer = library.derive(PlanWriter)(file, monitor)
        return bool(builder.build_serialized_network_to_stream(network, config, writer))
    plan = builder.build_serialized_network(network, config)
    if plan is not None:
        file.write(memoryview(plan))
    return plan is not None
