"""A fork server for tests: a Python with torch in memory, which forks the processes of tests.

A fresh Python takes two to four seconds until torch is imported, a fork a few milliseconds. In the
process of a test, and in the processes that it starts, ``subprocess.Popen`` sends every command
that is this Python with ``-c`` or ``-m`` to the server. As in a spawned process: its arguments,
environment, folder, files and process group; its exit code or the signal that ended it. Different
are its start, with modules in memory; its parent, which is the server; its outputs, which are not
buffered; and its end, without the destructors of libraries. A test about one of these has the mark
``process``. A process with a different environment for the start of Python or of its libraries,
such as ``PYTHONWARNINGS`` or ``OMP_NUM_THREADS``, is spawned too.

The server imports no engine: engines have threads, and hang in a forked process.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import logging
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: The environment variable that holds the path of the server's socket.
SOCKET = "TEST_FORK_SERVER"
#: The modules that most children import in addition to core, if they are installed.
PRELOADED = (
    "numpy",
    "networkx",
    "torch",
    "torch._dynamo.precompile_context",
    "torch._export.serde.serialize",
    "torch._functorch.aot_autograd",
    "torch.export._trace",
    "torch.onnx._internal.exporter._compat",
    "torch.testing",
    "torch.fx.experimental.validator",
    "torch._subclasses.schema_check_mode",
    "torch._inductor.compiler_bisector",
    "torch._inductor.fx_passes.dedupe_symint_uses",
    "torch._export.passes.replace_autocast_with_hop_pass",
    "torch._export.passes.replace_set_grad_with_hop_pass",
    "torch._functorch._aot_autograd.subclass_parametrization",
    "torch._inductor.sizevars",
    "torch._export.passes._node_metadata_hook",
    *(f"torch.onnx._internal.torchscript_exporter.symbolic_opset{opset}" for opset in range(7, 21)),
    "onnx.reference",
    "onnxscript",
    "numpy.ma",
    "multiprocessing.synchronize",
    "email.policy",
    "rich.console",
    "importlib_metadata",
    "importlib_metadata._adapters",
    "zipp",
    "packaging.requirements",
)
#: Our packages whose modules import no engine and no library of models at once.
OURS = (
    *("enginebay", "enginebay_lab", "enginebay_vision", "enginebay_rewriters"),
    *("enginebay_onnxruntime", "enginebay_openvino", "enginebay_ncnn"),
)
#: Prefixes of variables that Python and the libraries read while they start.
_AT_START = (
    *("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "OMP_", "MKL_", "OPENBLAS_", "KMP_"),
    *("ATEN_", "DNNL_", "ONEDNN_", "TORCH_", "NUMPY_", "NPY_"),
    "ENGINEBAY_NO_GPU",  # the stand-in for CUDA does
)
_READ_LATER = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")


@contextlib.contextmanager
def fork_server(folder: str = "") -> Iterator[None]:
    """Use a server in this process and its children; the first command starts the server.

    Args:
        folder: The folder of a server that other processes use too, of :func:`server_folder`.
    """
    with contextlib.ExitStack() as stack:
        folder = folder or stack.enter_context(server_folder())
        _ForkingPopen.start_server = lambda: _start_once(Path(folder))
        original = subprocess.Popen
        _install()
        os.environ[SOCKET] = str(Path(folder, "socket"))
        try:
            yield
        finally:
            del os.environ[SOCKET]
            subprocess.Popen = original  # type: ignore[misc]


@contextlib.contextmanager
def server_folder() -> Iterator[str]:
    """Make a folder for one server, which ends with this context, however this process ends."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(Path(folder, "open"))
        pipe = os.open(Path(folder, "open"), os.O_RDWR)
        try:
            yield folder
        finally:
            os.close(pipe)
            for server in _SERVERS:
                server.wait()
            _SERVERS.clear()


#: The server that this process has started. Its end is waited for by the one that made its folder.
_SERVERS: list[subprocess.Popen[bytes]] = []


def _start_once(folder: Path) -> None:
    """Start the folder's server unless another process did; return when it listens."""
    with Path(folder, "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        socket = folder / "socket"
        if socket.exists():
            return
        command = [sys.executable, "-P", "-u", __file__, str(socket), *filter(None, sys.path)]
        environment = {**os.environ, "PYTHONPATH": ""}
        with Path(folder, "open").open("rb", buffering=0) as pipe:
            server = subprocess.Popen(command, stdin=pipe, stdout=subprocess.PIPE, env=environment)
        _SERVERS.append(server)
        assert server.stdout is not None
        with server.stdout as ready:
            assert ready.read(1), "the fork server did not start"


@contextlib.contextmanager
def no_forks() -> Iterator[None]:
    """Spawn every process inside this context."""
    path = os.environ.pop(SOCKET, None)
    try:
        yield
    finally:
        if path is not None:
            os.environ[SOCKET] = path


#: The command ``enginebay`` for shells, which asks the server for a fork.
_COMMAND = """\
#!{python} -IS
import json, os, socket, sys
mask = os.umask(0)
os.umask(mask)
argv = [sys.executable, "-m", "enginebay", *sys.argv[1:]]
request = json.dumps([argv, dict(os.environ), os.getcwd(), mask, -1, False]).encode()
server = socket.socket(socket.AF_UNIX)
server.connect({socket!r})
socket.send_fds(server, [len(request).to_bytes(8, "little")], [0, 1, 2])
server.sendall(request)
replies = server.makefile("rb")
replies.readline()
sys.exit(os.waitstatus_to_exitcode(int(replies.readline())))
"""


def write_command(folder: Path) -> None:
    """Write ``enginebay`` for shells whose ``PATH`` begins with the folder."""
    command = folder / "enginebay"
    _start_server()
    command.write_text(_COMMAND.format(python=sys.executable, socket=os.environ[SOCKET]))
    command.chmod(0o755)


#: Held by the thread that starts the server; other threads wait until the socket exists.
_STARTING = threading.Lock()


def _start_server() -> None:
    with _STARTING:
        if start := _ForkingPopen.start_server:
            _ForkingPopen.start_server = None
            start()


def _install() -> None:
    _ForkingPopen.at_start = _read_at_start(os.environ)
    subprocess.Popen = _ForkingPopen  # type: ignore[misc]


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Python and the libraries have read before a fork."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_AT_START) and name not in _READ_LATER
    }


class Request(NamedTuple):
    """The properties of a process to start.

    Attributes:
        argv: Its command line, which begins with Python.
        environment: Its whole environment.
        folder: Its working directory.
        umask: Its mask for the modes of new files.
        group: The process group that it joins; -1 to stay in the server's.
        session: Whether it begins a session.
    """

    argv: list[str]
    environment: dict[str, str]
    folder: str
    umask: int
    group: int
    session: bool


class _ForkingPopen(subprocess.Popen[Any]):
    """``Popen`` that uses the server if the process would be this Python.

    It overrides the start of a process and the wait for its end.
    """

    at_start: ClassVar[dict[str, str]] = {}
    start_server: ClassVar[Callable[[], None] | None] = None
    _server: socket.socket | None = None

    def _execute_child(self, args: Any, executable: Any, *rest: Any) -> None:
        options = dict(zip(_OPTIONS, rest, strict=True))
        needs = ("preexec_fn", "pass_fds", "shell", "gid", "gids", "uid")  # a process of our own
        if executable or any(options[name] for name in needs) or not self._is_python(args):
            super()._execute_child(args, executable, *rest)  # type: ignore[misc]
            return
        environment = dict(os.environ if options["env"] is None else options["env"])
        files = [options["p2cread"], options["c2pwrite"], options["errwrite"]]
        files = [number if file == -1 else file for number, file in enumerate(files)]
        folder = os.fspath(options["cwd"] or os.curdir)
        if _read_at_start(environment) != self.at_start or not _are_open(files):
            super()._execute_child(args, executable, *rest)  # type: ignore[misc]
            return
        os.stat(folder)  # noqa: PTH116 - raises what Popen raises
        mask = os.umask(0)
        os.umask(mask)
        argv = [os.fspath(word) for word in args]
        group, session = options["process_group"], options["start_new_session"]
        request = Request(argv, environment, str(Path(folder).resolve()), mask, group, session)
        self._send(request, files)
        self._close_pipe_fds(*rest[8:14])  # type: ignore[attr-defined]

    def _is_python(self, args: Any) -> bool:
        if isinstance(args, str | bytes | os.PathLike) or SOCKET not in os.environ:
            return False
        words = [os.fspath(word) for word in args]
        if words[0] != sys.executable or any("\0" in word for word in words):
            return False
        return _parse(words) is not None

    def _send(self, request: Request, files: list[int]) -> None:
        _start_server()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(os.environ[SOCKET])
        message = json.dumps(request).encode()
        socket.send_fds(self._server, [len(message).to_bytes(8, "little")], files)
        self._server.sendall(message)
        self._replies = self._server.makefile("rb", buffering=0)
        self.pid = int(self._replies.readline())
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._server is None:
            spawned: tuple[int, int] = super()._try_wait(wait_flags)  # type: ignore[misc]
            return spawned
        if not select.select([self._server], [], [], 0 if wait_flags else None)[0]:
            return 0, 0
        status = self._replies.readline() or b"%d" % signal.SIGKILL  # the server has gone
        self._replies.close()
        self._server.close()
        return self.pid, int(status)

    def _internal_poll(self, _deadstate: int | None = None, **internal: Any) -> int | None:
        if self._server is None:
            return super()._internal_poll(_deadstate, **internal)  # type: ignore[misc, no-any-return]
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


#: The arguments of ``_execute_child`` after the command and the executable.
_OPTIONS = (
    *("preexec_fn", "close_fds", "pass_fds", "cwd", "env", "startupinfo", "creationflags", "shell"),
    *("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"),
    *("restore_signals", "gid", "gids", "uid", "umask", "start_new_session", "process_group"),
)


def _are_open(files: list[int]) -> bool:
    try:
        for file in files:
            os.fstat(file)
    except OSError:
        return False
    return True


class _Command(NamedTuple):
    """The parts of Python's command line."""

    safe_path: bool
    warnings: list[str]
    kind: str  # -c or -m
    what: str
    arguments: list[str]


def _parse(argv: list[Any]) -> _Command | None:
    """Return the parts of a command line, or None if it has an unknown flag."""
    safe_path = False
    warn: list[str] = []
    words = [str(word) for word in argv[1:]]
    while words:
        word = words.pop(0)
        if word in ("-c", "-m") and words:
            return _Command(safe_path, warn, word, words[0], words[1:])
        if word == "-P":
            safe_path = True
        elif word == "-u":
            pass  # so are the outputs of every fork
        elif word == "-W" and words[:1] in (["ignore"], ["error"]):
            warn.append(words.pop(0))
        else:
            return None
    return None


# -- the server ---------------------------------------------------------------------------------


def main(path: str, entries: list[str]) -> None:
    """Fork at each request, and become the requested process in each fork."""
    atexit.register(_end_at_once)  # the first to be registered, so the last to be called
    bare = list(sys.path)
    sys.path[:] = entries
    sys.modules.pop("sitecustomize", None)  # Debian's, which comes after all others
    with contextlib.suppress(ImportError):  # as the start of a Python with these folders does
        importlib.import_module("sitecustomize")
    ours: list[str] = []
    for package in OURS:
        with contextlib.suppress(ImportError):
            folders = importlib.import_module(package).__path__
            ours += [found.name for found in pkgutil.walk_packages(folders, f"{package}.")]
    ours = [name for name in ours if "__main__" not in name.split(".")]
    logging.disable(logging.WARNING)  # a test that starts the server may compare stderr
    for module in (*PRELOADED, *ours):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    importlib.import_module("tests.quick_torch").quicken_torch(now=True)
    logging.disable(logging.NOTSET)
    _install()
    gc.collect()
    gc.freeze()  # a fork that collects garbage would copy every page
    gc.set_threshold(50_000, 20, 20)  # as in `conftest.py`
    request = _serve(path)
    command = _parse(request.argv)
    assert command is not None
    _become(request)
    for finalizer in weakref.finalize._registry:  # type: ignore[attr-defined]
        finalizer.atexit = False  # torch takes its libraries down for a fifth of a second
    try:
        _start_python(command, bare)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        _EXIT_CODES.append(end.code or 0)
    except KeyboardInterrupt:  # as Python ends, so that a shell sees the signal
        sys.excepthook(*sys.exc_info())
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except Exception:
        sys.excepthook(*sys.exc_info())
        _EXIT_CODES.append(1)
    else:
        _EXIT_CODES.append(0)


#: The exit code of a forked process, once it is known.
_EXIT_CODES: list[int] = []


def _end_at_once() -> None:
    """Spare a forked process the quarter of a second in which Python tears torch down."""
    if _EXIT_CODES:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_EXIT_CODES[0])


def _serve(path: str) -> Request:
    """Fork at each request until standard input is closed; return in each fork."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    signal.signal(signal.SIGCHLD, lambda *_: None)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    children: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        os.write(1, b"+")
        while True:
            files: list[Any] = [listener, 0, woken]
            ready = select.select(files, [], [])[0]
            if 0 in ready:
                os._exit(0)
            if woken in ready:
                os.read(woken, 1 << 10)
                _report_ends(children)
            if listener not in ready:
                continue
            connection = listener.accept()[0]
            request, files = _receive(connection)
            child = os.fork()
            if not child:
                break
            children[child] = connection
            for file in files:
                os.close(file)
    signal.set_wakeup_fd(-1)
    for file in (woken, wake):
        os.close(file)
    for other in children.values():
        other.close()
    if request.session:
        os.setsid()
    elif request.group >= 0:
        os.setpgid(0, request.group)
    connection.sendall(b"%d\n" % os.getpid())
    connection.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    return request


def _receive(connection: socket.socket) -> tuple[Request, list[int]]:
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    message = bytearray()
    while len(message) < int.from_bytes(size, "little"):
        message += connection.recv(1 << 16)
    return Request(*json.loads(message)), files


def _report_ends(children: dict[int, socket.socket]) -> None:
    """Send the exit status of each ended child to the process that started it."""
    with contextlib.suppress(ChildProcessError):  # none is left
        while ended := os.waitpid(-1, os.WNOHANG):
            pid, status = ended
            if not pid:
                return
            with children.pop(pid) as connection, contextlib.suppress(OSError):
                connection.sendall(b"%d\n" % status)


#: Streams of the server, which would close a file if they ended.
_REPLACED: list[Any] = []


# -- a forked process ---------------------------------------------------------------------------


def _become(request: Request) -> None:
    """Set the environment, folder and files of this process as requested."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request.folder)
    os.umask(request.umask)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    tempfile.tempdir = None  # it is read from the environment again
    for file, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        raw: Any = io.FileIO(file, "w" if file else "r", closefd=False)
        raw = raw if file else io.BufferedReader(raw)
        stream = io.TextIOWrapper(raw, old.encoding, old.errors, write_through=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
        _REPLACED.append(old)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()


def _start_python(command: _Command, bare: list[str]) -> None:
    """Run the module or code of the command as Python does, with its errors and exit codes."""
    for action in command.warnings:
        warnings.simplefilter(action)  # type: ignore[arg-type]
        sys.warnoptions.append(action)
    first = [] if command.safe_path else ["" if command.kind == "-c" else str(Path.cwd())]
    outside = os.environ.get("PYTHONPATH", "")
    sys.path[:] = [*first, *filter(None, outside.split(os.pathsep)), *bare]
    importlib.invalidate_caches()
    sys.argv[:] = [command.kind, *command.arguments]
    if command.kind == "-m":
        runpy.run_module(command.what, run_name="__main__", alter_sys=True)
        return
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    exec(compile(command.what, "<string>", "exec"), module.__dict__)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
