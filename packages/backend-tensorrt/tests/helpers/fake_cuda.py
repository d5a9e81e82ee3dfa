"""A CUDA runtime without a GPU: the device's memory is the host's, and streams are queues.

Work on a stream runs only when something waits for it, so a test finds a result that is read too
early, or memory that is reused too early. The functions replace those of the real
``cuda.bindings.runtime``, with the same enums and argument names.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import threading
from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cuda.bindings import runtime

if TYPE_CHECKING:
    from collections.abc import Callable

OK = runtime.cudaError_t.cudaSuccess
LOST = runtime.cudaError_t.cudaErrorInvalidResourceHandle

#: The CUDA that the bindings were made for.
RUNTIME = runtime.cudaRuntimeGetVersion()[1]

#: The machine's properties; tests change them, and the variable that child processes have too.
machine = SimpleNamespace(log=[])


def set_up() -> None:
    """Put two GPUs and a driver into the machine, unless ``ENGINEBAY_NO_GPU`` is set."""
    has_gpu = not os.environ.get("ENGINEBAY_NO_GPU")
    machine.driver, machine.runtime, machine.capability = 13000 * has_gpu, RUNTIME, (8, 9)
    machine.names = ["NVIDIA Fake 1", "NVIDIA Fake 2"] * has_gpu


set_up()


class Here(threading.local):
    """The calling thread's device."""

    device = 0


here = Here()


class Stream:
    """A queue of work that runs when waited for; of one device, except the default stream."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.device = here.device if handle else None
        self.queue: deque[Callable[[], None]] = deque()
        self.issued = self.done = 0
        self.recording: list[Callable[[], None]] | None = None

    def put(self, work: Callable[[], None]) -> None:
        if self.recording is not None:
            self.recording.append(work)
            return
        self.queue.append(work)
        self.issued += 1

    def run_until(self, target: int) -> None:
        while self.done < target:
            self.done += 1
            self.queue.popleft()()


class Event:
    """One device's, as the stream must be that records it."""

    def __init__(self) -> None:
        self.device = here.device
        self.stream: Stream | None = None
        self.target = 0

    def wait(self) -> None:
        if self.stream is not None:
            self.stream.run_until(self.target)


streams: dict[int, Stream] = {0: Stream(0)}
memory: dict[int, Any] = {}
lock = threading.RLock()


def reset() -> None:
    """Forget everything that happened."""
    streams.clear()
    streams[0] = Stream(0)
    memory.clear()
    machine.log.clear()
    set_up()
    here.device = 0


def stream(handle: Any) -> Stream:
    """A stream by its handle; torch's are made up as they come."""
    return streams.setdefault(int(handle), Stream(int(handle)))


def _allocate(size: int) -> int:
    # Aligned to 256 bytes, as CUDA's is, and full of something.
    raw = ctypes.create_string_buffer(b"\xaa" * (size + 256), size + 256)
    address = (ctypes.addressof(raw) + 255) & ~255
    memory[address] = raw
    return address


def cudaMalloc(size):
    machine.log.append(("cudaMalloc", size))
    return OK, _allocate(size)


def cudaMallocHost(size):
    return OK, _allocate(size)


def cudaFree(devPtr):
    cudaDeviceSynchronize()  # as CUDA's does
    return (OK,) if memory.pop(int(devPtr), None) is not None else (LOST,)


def cudaFreeHost(ptr):
    return (OK,) if memory.pop(int(ptr), None) is not None else (LOST,)


def cudaMemcpyAsync(dst, src, count, kind, stream):
    machine.log.append((kind.name, count, int(stream)))
    if not (dst and src):
        return (runtime.cudaError_t.cudaErrorInvalidValue,)
    globals()["stream"](stream).put(lambda: ctypes.memmove(dst, src, count))
    return (OK,)


def cudaMemsetAsync(devPtr, value, count, stream):
    globals()["stream"](stream).put(lambda: ctypes.memset(devPtr, value, count))
    return (OK,)


def cudaStreamCreateWithFlags(flags):
    with lock:
        handle = 0x1000 + len(streams)
        streams[handle] = Stream(handle)
    return OK, handle


def cudaStreamDestroy(stream):
    return (OK,) if streams.pop(int(stream), None) is not None else (LOST,)


def cudaStreamSynchronize(stream):
    machine.log.append(("cudaStreamSynchronize", int(stream)))
    with lock:
        one = globals()["stream"](stream)
        one.run_until(one.issued)
    return (OK,)


def cudaDeviceSynchronize():
    with lock:
        for one in list(streams.values()):
            one.run_until(one.issued)
    return (OK,)


def cudaEventCreateWithFlags(flags):
    return OK, Event()


def cudaEventDestroy(event):
    return (OK,)


def cudaEventRecord(event, stream):
    one = globals()["stream"](stream)
    if one.device not in (None, event.device):
        return (LOST,)
    event.stream = one
    event.target = event.stream.issued
    return (OK,)


def cudaEventSynchronize(event):
    event.wait()
    return (OK,)


def cudaStreamWaitEvent(stream, event, flags):
    waited, target = event.stream, event.target
    if waited is not None and waited.handle != int(stream):
        machine.log.append(("cudaStreamWaitEvent", int(stream), waited.handle))
        globals()["stream"](stream).put(lambda: waited.run_until(target))
    return (OK,)


def cudaStreamBeginCapture(stream, mode):
    globals()["stream"](stream).recording = []
    return (OK,)


def cudaStreamEndCapture(stream):
    one = globals()["stream"](stream)
    work, one.recording = one.recording, None
    return OK, work


def cudaGraphInstantiate(graph, flags):
    return OK, list(graph)


def cudaGraphLaunch(graphExec, stream):
    machine.log.append(("cudaGraphLaunch", int(stream)))
    for work in graphExec:
        globals()["stream"](stream).put(work)
    return (OK,)


def cudaGraphDestroy(graph):
    return (OK,)


def cudaGraphExecDestroy(graphExec):
    return (OK,)


def cudaGetDevice():
    if not machine.names:
        return runtime.cudaError_t.cudaErrorNoDevice, None
    return OK, here.device


def cudaSetDevice(device):
    if device >= len(machine.names):
        return (runtime.cudaError_t.cudaErrorInvalidDevice,)
    here.device = device
    return (OK,)


def cudaGetDeviceCount():
    return OK, len(machine.names)


def cudaGetDeviceProperties(device):
    if device >= len(machine.names):
        return runtime.cudaError_t.cudaErrorInvalidDevice, None
    major, minor = machine.capability
    return OK, SimpleNamespace(name=machine.names[device].encode(), major=major, minor=minor)


def cudaDriverGetVersion():
    return OK, machine.driver


def cudaRuntimeGetVersion():
    return OK, machine.runtime


FUNCTIONS = {name: value for name, value in globals().items() if name.startswith("cuda")}
REAL = {name: getattr(runtime, name) for name in FUNCTIONS}


def install() -> None:
    """Replace the real functions."""
    for name, function in FUNCTIONS.items():
        setattr(runtime, name, function)


def differences() -> list[str]:
    """Functions whose arguments the real runtime calls otherwise."""
    found = []
    for name, function in FUNCTIONS.items():
        mine = list(inspect.signature(function).parameters)
        text = (REAL[name].__doc__ or "").split("\n")[0]
        inner = text.partition("(")[2].rpartition(")")[0]
        theirs = [part.split("=")[0].split(":")[0].split()[-1] for part in inner.split(",") if part]
        if mine != theirs:
            found.append(f"{name} takes {theirs}, not {mine}")
    return found
