"""Runs each sweep cell in a new process, so that no model affects the cells after it."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import EnginebayError
from enginebay_lab.sweeps.backend_check import check_backend, list_versions
from enginebay_lab.sweeps.cell_job import CellJob
from enginebay_lab.sweeps.cell_task import run_cell

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: Modules that most cells need. They take six of the eight CPU seconds of a small model's cell. A
#: fork has only the thread that forked: of these modules, only NumPy's OpenBLAS starts threads, and
#: it starts them again in a fork.
_MODULES = ("torch.export", "torch.onnx", "torch._dynamo", "onnx", "onnxscript")
#: The time for a process to end after it has sent the row; a thread of the model may never end.
_END_SECONDS = 1.0


def run_in_new_process(data: bytes) -> bytes:
    """Run a sweep cell (one model, backend and precision) in a new process; return its reply.

    On Linux, the new process is a fork of this process, which never runs code of a model or an
    engine. If the new process crashes, this process ends in the same way.

    Args:
        data: The result of :func:`~enginebay_lab.sweeps.job_builder.build_job`.

    Returns:
        The reply for :func:`~enginebay_lab.sweeps.worker_replies.receive_row`.
    """
    _import_modules()
    backend = msgspec.msgpack.decode(data, type=CellJob).cell.backend
    with suppress(EnginebayError):  # the row gets the error
        check_backend(backend)  # both are cached, for the forks too
        list_versions(backend)
    # On macOS, forks crash in the system's libraries: there, a new process imports everything.
    context = get_context("fork") if sys.platform == "linux" else get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_reply, args=(sender, data))
    with receiver:
        with sender:
            process.start()
        with suppress(EOFError):
            reply = receiver.recv_bytes()
            process.join(_END_SECONDS)
            process.kill()
            process.join()
            return reply
    process.join()
    _end_like(process.exitcode or 0)
    raise AssertionError  # not reached


@cache
def _import_modules() -> None:
    for name in _MODULES:
        with suppress(ImportError):
            import_module(name)


def _send_reply(sender: Connection, data: bytes) -> None:
    with sender:
        sender.send_bytes(run_cell(data))


def _end_like(exit_code: int) -> None:
    """End this process with an exit code, or with a signal if the exit code is negative."""
    if exit_code >= 0:
        sys.exit(exit_code)
    faulthandler.disable()  # the new process has written its traceback
    with suppress(OSError):  # SIGKILL has no handler
        signal.signal(-exit_code, signal.SIG_DFL)
    os.kill(os.getpid(), -exit_code)
