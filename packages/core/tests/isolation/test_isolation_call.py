"""`enginebay.isolation.call`: functions of a module that only this process's sys.path has."""

from __future__ import annotations

import enum
import json
import logging
import math
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from enginebay import errors
from enginebay.errors import ChildCrashedError, ChildTimeoutError, EnginebayError, IsolationError
from enginebay.isolation import call

MODULE = """
from __future__ import annotations

import ctypes, enum, os, signal, subprocess, sys, threading, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from enginebay.errors import ConversionError, EnginebayError, InputError, NotVerifiedError

if TYPE_CHECKING:
    from decimal import Decimal


class Color(enum.StrEnum):
    RED = "red"


class Point(msgspec.Struct, frozen=True):
    x: float
    y: float
    color: Color = Color.RED
    file: Path | None = None


class Maker:
    @staticmethod
    def make(x: float) -> Point:
        return Point(x, x)


class PluginOwnError(ConversionError):
    pass


def mirror(point: Point) -> Point:
    assert isinstance(point, Point), type(point)
    return Point(point.y, point.x, point.color, point.file)

def kinds(text: str, path: Path, points: list[Point], anything, *rest: Color) -> list[str]:
    return [type(each).__name__ for each in (text, path, points[0], anything, *rest)]

def echo(value):
    return value

def echo_path(value: Path):
    return value

def half_typed(number: int) -> Decimal:
    return number + 1

def badly_typed(number: Decimal):
    return number

def surroundings():
    here = sorted(name for name in sys.modules if "." not in name)
    return {"modules": here, "path": sys.path, "argv": sys.argv, "cwd": os.getcwd(),
            "main": sys.modules["__main__"].__dict__.get("__file__"), "key": os.environ.get("KEY")}

def noisy():
    print("print", "ü")
    print("error", file=sys.stderr)
    os.write(1, b"engine on 1\\n")
    os.write(2, b"engine on 2\\n")
    subprocess.run(["echo", "grandchild"])
    return "clean"

def raises(name: str, message: str, hint: str | None):
    import enginebay.errors
    raise getattr(enginebay.errors, name)(message, hint=hint)

def raises_mismatch():
    raise NotVerifiedError("worst element is off by 2", verdict=None, hint="look")

def raises_own():
    raise PluginOwnError("no such layer", hint="use another")

def raises_other():
    try:
        {}["inner"]
    except KeyError as error:
        raise RuntimeError("outer") from error

def fills_a_disk(path: Path):
    path.write_bytes(b"x")

def raises_empty():
    raise RuntimeError

def raises_odd():
    raise ValueError("file \\udcff")

def leaves(code):
    sys.exit(code)

def leaves_at_once(code: int):
    print("last words", end="")
    os._exit(code)

def interrupts():
    raise KeyboardInterrupt

def segfaults():
    print("about to fall")
    ctypes.string_at(0)

def aborts_later():
    import atexit
    atexit.register(os.abort)
    return 1

def hangs(pid_file: Path):
    child = subprocess.Popen(["sleep", "600"])
    pid_file.write_text(f"{child.pid}\\n")
    time.sleep(600)

def hangs_in_c(pid_file: Path):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    hangs(pid_file)

def hangs_in_run(pid_file: Path):
    from enginebay.isolation import run
    run(["sh", "-c", 'echo $$ >"$0"; sleep 600', str(pid_file)], timeout=600)

def fails_in_run():
    from enginebay.isolation import run
    run(["sh", "-c", "echo deep; kill -SEGV $$"], timeout=600)

def leaves_threads():
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return "back"

def reads_input():
    return sys.stdin.read()

def unsendable():
    return object()
"""


class Color(enum.StrEnum):
    RED = "red"


class Point(msgspec.Struct, frozen=True):
    x: float
    y: float
    color: Color = Color.RED
    file: Path | None = None


@pytest.fixture(scope="module", autouse=True)
def _module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("with space:and colon")
    (folder / "engine_under_test.py").write_text(MODULE)
    (folder / "broken_at_import.py").write_text("import sys\nsys.nothing_of_the_kind\n")
    (folder / "exits_at_import.py").write_text("raise SystemExit(5)\n")
    sys.path.append(str(folder))
    yield
    sys.path.remove(str(folder))


def call_child(name: str, *args: Any, timeout: float | None = 600, result: Any = Any) -> Any:
    return call(f"engine_under_test:{name}", *args, timeout=timeout, result_type=result)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends_soon(pid: int) -> bool:
    deadline = time.monotonic() + 100
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(pid)


def read_pid(file: Path) -> int:
    deadline = time.monotonic() + 100
    while not (file.exists() and file.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"{file} was never written"
        time.sleep(0.01)
    return int(file.read_text())


class TestValues:
    def test_structs_are_rebuilt_in_both_processes(self):
        point = Point(1.0, math.inf, file=Path("/a b"))
        mirrored = call_child("mirror", point, result=Point)
        assert mirrored == Point(math.inf, 1.0, Color.RED, Path("/a b"))
        assert isinstance(mirrored.file, Path)

    def test_arguments_are_converted_to_their_annotations(self):
        given_ = ("text", Path("p"), [Point(1, 2)], 3, Color.RED, "red")
        kinds = call_child("kinds", *given_)
        assert kinds == ["str", "PosixPath", "Point", "int", "Color", "Color"]

    def test_static_methods_and_c_functions_are_called(self):
        assert call_child("Maker.make", 2, result=Point) == Point(2.0, 2.0)
        assert call("math:hypot", 3.0, 4.0, timeout=600, result_type=float) == 5.0

    def test_unresolvable_result_annotation_is_ignored(self):
        assert call_child("half_typed", 1, result=int) == 2

    # One example costs a process.
    @settings(max_examples=8, deadline=None)
    @given(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**63), 2**64 - 1)
            | st.text()
            | st.floats()
            | st.binary(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
            max_leaves=9,
        )
    )
    def test_any_value_survives_the_round_trip(self, value):
        assert repr(call_child("echo", value)) == repr(value)

    def test_large_values_survive_the_round_trip(self):
        value = b"x" * 50_000_000
        assert call_child("echo", value, result=bytes) == value

    def test_result_may_be_none(self):
        assert call_child("echo", None, result=type(None)) is None

    def test_undecodable_path_survives_the_round_trip(self, tmp_path):
        odd = Path(os.fsdecode(b"fil\xe9"))
        assert call_child("echo_path", odd, result=Path) == odd

    def test_wrong_argument_type_is_refused(self):
        with pytest.raises(IsolationError) as caught:
            call_child("mirror", {"x": 1, "y": "high"})
        assert str(caught.value) == (
            "'engine_under_test:mirror' raised ValidationError:"
            " Expected `float`, got `str` - at `$[0].y`"
        )

    @pytest.mark.parametrize("args", [(), (Point(1, 2), 3)])
    def test_wrong_number_of_arguments_is_refused(self, args):
        with pytest.raises(IsolationError, match=r"raised TypeError: mirror\(\) "):
            call_child("mirror", *args)

    def test_wrong_result_type_is_refused(self):
        with pytest.raises(IsolationError) as caught:
            call_child("echo", "text", result=int)
        assert str(caught.value) == (
            "'engine_under_test:echo' returned the wrong type: Expected `int`, got `str`"
        )

    def test_unencodable_argument_is_refused(self):
        with pytest.raises(IsolationError) as caught:
            call_child("echo", object())
        assert str(caught.value) == (
            "invalid argument of 'engine_under_test:echo':"
            " values of type 'object' cannot be encoded as MessagePack"
        )

    def test_unencodable_result_is_refused(self):
        with pytest.raises(IsolationError) as caught:
            call_child("unsendable")
        assert str(caught.value) == (
            "'engine_under_test:unsendable' raised NotImplementedError:"
            " values of type 'object' cannot be encoded as MessagePack"
        )

    def test_unresolvable_argument_annotation_is_refused(self):
        with pytest.raises(IsolationError) as caught:
            call_child("badly_typed", 1)
        assert str(caught.value) == (
            "the annotations of 'badly_typed' cannot be resolved: name 'Decimal' is not defined"
        )
        assert caught.value.hint == (
            "import the annotation's name at run time, not under TYPE_CHECKING"
        )


class TestNames:
    def test_unknown_module_is_refused(self):
        with pytest.raises(IsolationError) as caught:
            call("no_such_module:f", timeout=600, result_type=int)
        assert str(caught.value) == (
            "'no_such_module:f' raised ModuleNotFoundError: No module named 'no_such_module'"
        )

    @pytest.mark.parametrize("name", ["nothing", "Maker.nothing", ""])
    def test_unknown_function_is_refused(self, name):
        with pytest.raises(IsolationError) as caught:
            call_child(name)
        assert str(caught.value) == f"module 'engine_under_test' has no function '{name}'"

    def test_exception_at_import_is_an_isolation_error(self):
        with pytest.raises(IsolationError, match="raised AttributeError: module 'sys' has no"):
            call("broken_at_import:f", timeout=600, result_type=int)

    def test_exit_at_import_is_a_crash(self):
        with pytest.raises(ChildCrashedError, match="ended with exit code 5 before it returned"):
            call("exits_at_import:f", timeout=600, result_type=int)


class TestSurroundings:
    @pytest.mark.process
    def test_child_inherits_path_environment_and_folder_but_not_modules(
        self, monkeypatch, tmp_path
    ):
        monkeypatch.setenv("KEY", "value")
        monkeypatch.chdir(tmp_path)
        (tmp_path / "json.py").write_text("raise RuntimeError('shadowed')")
        (tmp_path / "msgspec.py").write_text("raise RuntimeError('shadowed')")
        child = call_child("surroundings", result=dict[str, Any])
        assert child["path"] == sys.path
        assert child["argv"] == ["-c"]
        assert child["cwd"] == str(tmp_path)
        assert child["main"] is None
        assert child["key"] == "value"
        heavy = {"numpy", "torch", "onnx", "onnxruntime", "pluggy", "rich", "pytest", "tempfile"}
        assert not heavy & set(child["modules"])

    def test_path_object_in_sys_path_is_accepted(self, monkeypatch, tmp_path):
        monkeypatch.syspath_prepend(tmp_path)
        sys.path.insert(0, tmp_path)  # type: ignore[arg-type] # people do
        assert call_child("echo", 1) == 1

    @pytest.mark.parametrize("way", ["file", "-c", "stdin", "exec"])
    def test_main_module_needs_no_guard(self, way, tmp_path):
        code = textwrap.dedent(
            f"""
            import sys
            sys.path[:] = {sys.path!r}
            print("main runs")
            from enginebay.isolation import call
            print(call("engine_under_test:echo", [1], timeout=600, result_type=list))
            """
        )
        (tmp_path / "script.py").write_text(code)
        argv = {
            "file": [str(tmp_path / "script.py")],
            "-c": ["-c", code],
            "stdin": ["-"],
            "exec": ["-c", f"exec({code!r}, {{'__name__': '__main__'}})"],
        }[way]
        done = subprocess.run(
            [sys.executable, *argv], input=code, capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr) == ("main runs\n[1]\n", "")

    def test_standard_input_is_empty(self):
        assert call_child("reads_input") == ""

    def test_daemon_thread_does_not_delay_the_result(self):
        assert call_child("leaves_threads") == "back"


@pytest.mark.process
class TestNoise:
    def test_printed_output_is_passed_on_and_not_returned(self):
        lines: list[str] = []
        answer = call("engine_under_test:noisy", timeout=600, result_type=str, on_line=lines.append)
        assert answer == "clean"
        assert lines == ["print ü", "error", "engine on 1", "engine on 2", "grandchild"]

    def test_output_is_logged_without_on_line(self, caplog):
        with caplog.at_level(logging.DEBUG, logger="enginebay.isolation"):
            call_child("noisy")
        assert "'engine_under_test:noisy': engine on 1" in caplog.messages

    def test_child_with_ascii_encoding_can_print(self, monkeypatch):
        monkeypatch.setenv("PYTHONIOENCODING", "ascii")
        assert call_child("noisy") == "clean"


def all_errors() -> list[str]:
    def below(kind: type[EnginebayError]) -> list[type[EnginebayError]]:
        return [kind, *(each for child in kind.__subclasses__() for each in below(child))]

    ours = [kind for kind in below(EnginebayError) if kind.__module__ == "enginebay.errors"]
    return [kind.__name__ for kind in ours if kind is not errors.NotVerifiedError]


class TestRaised:
    @pytest.mark.parametrize("name", all_errors())
    def test_enginebay_errors_are_raised_in_the_parent(self, name):
        with pytest.raises(EnginebayError) as caught:
            call_child("raises", name, "what failed", "what to type")
        assert type(caught.value) is getattr(errors, name)
        assert str(caught.value) == "what failed"
        assert caught.value.hint == "what to type"
        hint, note = caught.value.__notes__
        assert hint == "hint: what to type"
        assert note.startswith("In the child process:\nTraceback (most recent call last):\n")
        assert "in raises\n" in note

    def test_error_without_a_hint_has_no_hint_in_the_parent(self):
        with pytest.raises(errors.InputError) as caught:
            call_child("raises", "InputError", "wrong", None)
        assert caught.value.hint is None

    def test_not_verified_error_becomes_its_base_class(self):
        with pytest.raises(EnginebayError) as caught:
            call_child("raises_mismatch")
        assert type(caught.value) is EnginebayError
        assert str(caught.value) == "worst element is off by 2"
        assert caught.value.hint == "look"

    def test_plugins_own_error_becomes_the_nearest_base_class(self):
        with pytest.raises(errors.ConversionError) as caught:
            call_child("raises_own")
        assert str(caught.value) == "no such layer"
        assert caught.value.__notes__[0] == "hint: use another"
        assert "PluginOwnError" in caught.value.__notes__[1]

    def test_foreign_exception_becomes_an_isolation_error(self):
        with pytest.raises(IsolationError) as caught:
            call_child("raises_other")
        assert type(caught.value) is IsolationError
        assert str(caught.value) == "'engine_under_test:raises_other' raised RuntimeError: outer"
        [note] = caught.value.__notes__
        assert "KeyError: 'inner'\n\nThe above exception was the direct cause" in note

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
    def test_full_disk_is_reported_with_the_temporary_folder(self, monkeypatch):
        monkeypatch.setenv("TMPDIR", "/var/tmp")
        with pytest.raises(EnginebayError) as caught:
            call_child("fills_a_disk", Path("/dev/full"))
        assert str(caught.value) == "a file cannot be written: No space left on device"
        assert caught.value.hint == (
            "free some space, or set TMPDIR to a folder other than '/var/tmp'"
        )

    def test_exception_without_a_message_is_shown_by_its_type(self):
        with pytest.raises(IsolationError) as caught:
            call_child("raises_empty")
        assert str(caught.value) == "'engine_under_test:raises_empty' raised RuntimeError"

    def test_undecodable_exception_message_is_escaped(self):
        with pytest.raises(IsolationError, match=r"raised ValueError: file \\udcff"):
            call_child("raises_odd")

    def test_crash_of_a_grandchild_is_raised_with_its_output(self):
        with pytest.raises(ChildCrashedError) as caught:
            call_child("fails_in_run")
        assert str(caught.value) == "'sh' ended with SIGSEGV; its last output:\n  deep"
        assert "$ sh -c 'echo deep; kill -SEGV $$'\n" in caught.value.__notes__[0]


@pytest.mark.process
class TestCrash:
    @pytest.mark.parametrize("code", [0, 1, 7])
    def test_exit_before_returning_is_a_crash(self, code):
        with pytest.raises(ChildCrashedError) as caught:
            call_child("leaves", code)
        assert str(caught.value) == (
            f"'engine_under_test:leaves' ended with exit code {code} before it returned;"
            " it printed nothing"
        )

    @pytest.mark.parametrize("code", [0, 9])
    def test_os_exit_is_a_crash_with_the_last_output(self, code):
        with pytest.raises(ChildCrashedError) as caught:
            call_child("leaves_at_once", code)
        assert str(caught.value) == (
            f"'engine_under_test:leaves_at_once' ended with exit code {code} before it returned;"
            " its last output:\n  last words"
        )

    def test_interrupt_in_the_child_is_a_crash(self):
        with pytest.raises(ChildCrashedError, match="ended with SIGINT before it returned"):
            call_child("interrupts")

    def test_segfault_reports_output_and_traceback(self):
        with pytest.raises(ChildCrashedError) as caught:
            call_child("segfaults")
        assert str(caught.value) == (
            "'engine_under_test:segfaults' ended with SIGSEGV before it returned;"
            " its last output:\n  about to fall"
        )
        output, where = caught.value.__notes__
        assert output == "$ engine_under_test:segfaults\nabout to fall\n"
        assert where.startswith("In the child process:\nFatal Python error: Segmentation fault")
        assert 'engine_under_test.py", line ' in where

    def test_crash_after_the_reply_is_a_crash(self):
        with pytest.raises(ChildCrashedError) as caught:
            call_child("aborts_later")
        assert str(caught.value) == (
            "'engine_under_test:aborts_later' ended with SIGABRT after it had returned;"
            " it printed nothing"
        )


class TestTimeout:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["hangs", "hangs_in_run"])
    def test_timeout_ends_grandchildren(self, name, tmp_path, soon):
        with pytest.raises(ChildTimeoutError) as caught:
            call_child(name, tmp_path / "pid", timeout=soon)
        assert str(caught.value).startswith(
            f"'engine_under_test:{name}' ran past its time limit of {soon} s; "
        )
        assert ends_soon(read_pid(tmp_path / "pid"))

    def test_child_that_ignores_sigterm_is_killed(self, tmp_path, monkeypatch, soon):
        monkeypatch.setattr("enginebay.isolation.programs.KILL_GRACE_SECONDS", 0.2)
        with pytest.raises(ChildTimeoutError):
            call_child("hangs_in_c", tmp_path / "pid", timeout=soon)
        assert ends_soon(read_pid(tmp_path / "pid"))

    @pytest.mark.process
    @pytest.mark.parametrize("name", ["hangs", "hangs_in_run", "hangs_in_c"])
    def test_nothing_outlives_a_killed_parent(self, name, tmp_path):
        arguments = json.dumps([f"engine_under_test:{name}", str(tmp_path / "pid")])
        code = f"""import sys
sys.path[:] = {sys.path!r}
from enginebay.isolation import call
call(*{arguments}, timeout=600, result_type=int)
"""
        with subprocess.Popen([sys.executable, "-c", code]) as parent:
            grandchild = read_pid(tmp_path / "pid")
            children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
            parent.kill()
        assert len(children) == 2  # the guard and the child
        assert all(ends_soon(pid) for pid in [grandchild, *map(int, children)])


@pytest.mark.process
class TestClosed:
    def test_parent_without_standard_streams_can_call_and_run(self, tmp_path):
        code = f"""import os, sys
sys.path[:] = {sys.path!r}
for fd in (0, 1, 2):
    os.close(fd)
from enginebay.isolation import call, run
answer = call("math:hypot", 3.0, 4.0, timeout=600, result_type=float)
said = run(["echo", "said"], timeout=600).output
with open("result", "w") as file:
    print(answer, said, file=file, end="")
"""
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
        assert (tmp_path / "result").read_text() == "5.0 said\n"

    def test_closing_every_descriptor_is_a_crash(self):
        with pytest.raises(ChildCrashedError, match="ended with exit code 1 before it returned"):
            call("os:closerange", 0, 100, timeout=600, result_type=type(None))
