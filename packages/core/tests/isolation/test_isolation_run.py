"""`enginebay.isolation.run`: real programs, real signals, real files."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from enginebay.errors import ChildCrashedError, ChildTimeoutError, IsolationError
from enginebay.isolation import Finished, run
from enginebay.isolation.process_group import END_CHARACTERS, OutputLog
from enginebay.time_limits import check_time_limit, time_limit


def python(code: str, *args: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code), *args]


def is_alive(pid: int) -> bool:
    """Return True if the process is running; a zombie is not."""
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


class TestFinished:
    def test_result_has_ordered_output_command_and_time(self):
        argv = ["sh", "-c", "echo one; echo two >&2; echo three"]
        finished = run(argv, timeout=600)
        assert finished == Finished(tuple(argv), 0, "one\ntwo\nthree\n", finished.seconds)
        assert 0 < finished.seconds < 600

    def test_arguments_are_not_expanded_by_a_shell(self):
        assert run(["echo", "$HOME;", "a b", "*"], timeout=600).output == "$HOME; a b *\n"

    def test_path_objects_are_accepted_as_arguments(self, tmp_path):
        (tmp_path / "a b").write_text("inside")
        assert run([Path("/bin/cat"), tmp_path / "a b"], timeout=600).output == "inside"

    def test_cwd_and_env_apply_to_the_child(self, tmp_path):
        argv = ["/bin/sh", "-c", "pwd; echo $KEY"]
        finished = run(argv, timeout=600, cwd=tmp_path, env={"KEY": "v"})
        assert finished.output == f"{tmp_path.resolve()}\nv\n"

    def test_standard_input_is_empty(self):
        assert run(["cat"], timeout=600).output == ""

    def test_time_limit_is_optional(self):
        assert run(["true"], timeout=None).exit_code == 0

    @pytest.mark.parametrize("timeout", [600, None])
    def test_a_child_that_closes_its_output_is_waited_for(self, timeout, tmp_path):
        script = "exec >&- 2>&-; sleep 0.2; echo x >late"
        run(["sh", "-c", script], timeout=timeout, cwd=tmp_path, required_outputs=["late"])

    def test_threads_get_the_output_of_their_own_child(self):
        outputs: dict[int, str] = {}

        def run_echo(number: int) -> None:
            outputs[number] = run(["echo", str(number)], timeout=600).output

        threads = [threading.Thread(target=run_echo, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outputs == {number: f"{number}\n" for number in range(8)}

    def test_no_descriptor_and_no_process_is_left(self):
        def open_resources() -> tuple[int, str]:
            children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()
            return len(list(Path("/proc/self/fd").iterdir())), children

        before = open_resources()
        run(["true"], timeout=600)
        with pytest.raises(ChildTimeoutError):
            run(["sleep", "600"], timeout=0.05)
        with pytest.raises(IsolationError):
            run(["no-such-program"], timeout=600)
        assert open_resources() == before


class TestOutput:
    def test_lines_arrive_while_the_child_runs(self, tmp_path):
        code = """
            import os, sys, time
            print("started", flush=True)
            while not os.path.exists(sys.argv[1]):
                time.sleep(0.01)
            print("saw it")
        """
        seen = []

        def on_line(line: str) -> None:
            seen.append(line)
            (tmp_path / "go").touch()  # without this the child never ends

        run(python(code, str(tmp_path / "go")), timeout=600, on_line=on_line)
        assert seen == ["started", "saw it"]

    def test_output_is_logged_without_on_line(self, caplog):
        with caplog.at_level(logging.DEBUG, logger="enginebay.isolation"):
            run(["printf", "100%% done\nrest"], timeout=600)
        assert caplog.messages == ["printf: 100% done", "printf: rest"]

    def test_exception_in_on_line_ends_the_child_and_propagates(self):
        def on_line(line: str) -> None:
            pids.append(int(line))
            raise RuntimeError("enough")

        pids: list[int] = []
        with pytest.raises(RuntimeError, match="enough"):
            run(["sh", "-c", "echo $$; echo 1; sleep 600"], timeout=600, on_line=on_line)
        assert len(pids) == 1
        assert ends_soon(pids[0])

    def test_undecodable_bytes_are_replaced(self):
        assert run(["printf", r"\377\303"], timeout=600).output == "��"

    def test_huge_output_is_cut_in_the_middle(self):
        code = r"import sys; sys.stdout.write('first\n' + 'x' * 5_000_000 + '\nlast\n')"
        output = run(python(code), timeout=600).output
        assert output.startswith("first\nxxx")
        assert output.endswith("xxx\nlast\n")
        assert f"\n[… {5_000_012 - 2 * END_CHARACTERS} characters left out …]\n" in output
        assert len(output) < 2 * END_CHARACTERS + 100

    @given(st.lists(st.binary(max_size=20) | st.sampled_from([b"\r", b"\n", b"a", b"\xc3"])))
    @settings(deadline=None)
    def test_text_does_not_depend_on_the_chunks(self, pieces):
        lines: list[str] = []
        log = OutputLog(lines.append)
        for piece in pieces:
            log.feed(piece)
        log.feed(b"", final=True)
        whole = b"".join(pieces).decode("utf-8", "replace")
        assert log.text() == whole.replace("\r\n", "\n").replace("\r", "\n")
        expected = log.text().split("\n")
        assert lines == (expected if expected[-1] else expected[:-1])

    def test_very_long_line_is_passed_on_in_parts(self):
        lines: list[str] = []
        log = OutputLog(lines.append)
        for _ in range(3):
            log.feed(b"x" * END_CHARACTERS)
        assert [len(line) for line in lines] == [2 * END_CHARACTERS]


class TestCrash:
    def test_exit_code_is_reported_with_the_last_lines(self):
        with pytest.raises(ChildCrashedError) as caught:
            run(["sh", "-c", "for n in 1 2 3 4 5 6; do echo line $n; done; exit 3"], timeout=600)
        assert str(caught.value) == (
            "'sh' ended with exit code 3; its last output:\n"
            "  line 2\n  line 3\n  line 4\n  line 5\n  line 6"
        )
        [note] = caught.value.__notes__
        assert note.startswith("$ sh -c 'for n in")
        assert note.endswith("\nline 1\nline 2\nline 3\nline 4\nline 5\nline 6\n")

    @pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGTERM"])
    def test_a_signal_is_named(self, name):
        with pytest.raises(ChildCrashedError) as caught:
            run(["/bin/sh", "-c", f"kill -{name.removeprefix('SIG')} $$"], timeout=600)
        assert str(caught.value) == f"'sh' ended with {name}; it printed nothing"

    def test_a_real_time_signal_is_numbered(self):
        number = signal.SIGRTMIN + 3
        with pytest.raises(ChildCrashedError) as caught:
            run(["sh", "-c", f"kill -{number} $$"], timeout=600)
        assert str(caught.value) == f"'sh' ended with signal {number}; it printed nothing"

    def test_a_long_line_is_cut_in_the_message_only(self):
        with pytest.raises(ChildCrashedError) as caught:
            run(python("print('y' * 1000); raise SystemExit(1)"), timeout=600)
        assert str(caught.value).endswith(":\n  " + "y" * 200)
        assert "y" * 1000 in caught.value.__notes__[0]


class TestNotStarted:
    def test_unknown_program_is_refused(self):
        with pytest.raises(IsolationError) as caught:
            run(["no-such-program", "x"], timeout=600)
        assert str(caught.value) == "program 'no-such-program' is not found"
        assert caught.value.hint == "install it, or put its folder on PATH"

    def test_file_without_execute_permission_is_refused(self, tmp_path):
        plain = tmp_path / "plain"
        plain.write_text("text")
        with pytest.raises(IsolationError) as caught:
            run([plain], timeout=600)
        reason = f"Permission denied: '{plain}'"
        assert str(caught.value) == f"program '{plain}' cannot be started: {reason}"

    def test_missing_cwd_is_refused(self, tmp_path):
        with pytest.raises(IsolationError) as caught:
            run(["true"], timeout=600, cwd=tmp_path / "gone")
        reason = f"No such file or directory: '{tmp_path / 'gone'}'"
        assert str(caught.value) == f"program 'true' cannot be started: {reason}"


class TestTimeout:
    def test_timeout_is_reported_with_the_output_so_far(self, soon):
        with pytest.raises(ChildTimeoutError) as caught:
            run(["sh", "-c", "echo working; sleep 600"], timeout=soon)
        assert str(caught.value) == (
            f"'sh' ran past its time limit of {soon} s; its last output:\n  working"
        )
        assert caught.value.__notes__ == ["$ sh -c 'echo working; sleep 600'\nworking\n"]

    def test_time_limit_of_zero_ends_the_child(self):
        with pytest.raises(ChildTimeoutError) as caught:
            run(["sleep", "600"], timeout=0)
        assert str(caught.value) == "'sleep' ran past its time limit of 0 s; it printed nothing"

    def test_child_with_constant_output_is_ended(self):
        with pytest.raises(ChildTimeoutError):
            run(["yes"], timeout=0.1, on_line=lambda line: None)

    def test_child_that_closed_its_output_is_ended(self):
        with pytest.raises(ChildTimeoutError):
            run(["sh", "-c", "exec >&- 2>&-; sleep 600"], timeout=0.3)

    def test_timeout_ends_grandchildren(self, tmp_path, soon):
        with pytest.raises(ChildTimeoutError):
            run(["sh", "-c", "sleep 600 & echo $! >pid; wait"], timeout=soon, cwd=tmp_path)
        assert ends_soon(read_pid(tmp_path / "pid"))

    def test_child_can_clean_up_after_sigterm(self, monkeypatch, soon):
        monkeypatch.setattr("enginebay.isolation.programs.KILL_GRACE_SECONDS", 600)
        script = "trap 'echo cleaned up; exit' TERM; echo ready; while :; do sleep 0.1; done"
        with pytest.raises(ChildTimeoutError) as caught:
            run(["sh", "-c", script], timeout=soon)
        assert "output:\n  ready\n" in str(caught.value)
        assert str(caught.value).endswith("\n  cleaned up")

    def test_child_that_ignores_sigterm_is_killed(self, monkeypatch, tmp_path, soon):
        monkeypatch.setattr("enginebay.isolation.programs.KILL_GRACE_SECONDS", 0.2)
        script = "trap '' TERM; echo $$ >pid; while :; do sleep 0.1; done"
        with pytest.raises(ChildTimeoutError):
            run(["sh", "-c", script], timeout=soon, cwd=tmp_path)
        assert not is_alive(read_pid(tmp_path / "pid"))


class TestLeftBehind:
    def test_a_grandchild_that_holds_the_output_is_ended(self, tmp_path):
        script = "sleep 600 & echo $! >pid; echo done"
        finished = run(["sh", "-c", script], timeout=600, cwd=tmp_path)
        assert finished.output == "done\n"
        assert ends_soon(read_pid(tmp_path / "pid"))

    @pytest.mark.parametrize("program", ["sleep 600", "yes"])
    def test_process_that_left_the_group_does_not_block(self, program, tmp_path):
        script = f"setsid sh -c 'echo $$ >pid; exec {program}' & until [ -s pid ]; do :; done"
        try:
            run(["sh", "-c", script], timeout=600, cwd=tmp_path)
        finally:
            with contextlib.suppress(ProcessLookupError):  # `yes` ends with the pipe
                os.kill(read_pid(tmp_path / "pid"), signal.SIGKILL)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    def test_children_end_with_a_killed_parent(self, number, tmp_path):
        code = """
            from enginebay.isolation import run
            script = "sleep 600 & echo $! >grandchild; echo $$ >child; wait"
            run(["sh", "-c", script], timeout=600)
        """
        with subprocess.Popen(python(code), cwd=tmp_path, stderr=subprocess.DEVNULL) as parent:
            child, grandchild = read_pid(tmp_path / "child"), read_pid(tmp_path / "grandchild")
            parent.send_signal(number)
        assert ends_soon(child)
        assert ends_soon(grandchild)

    def test_keyboard_interrupt_ends_the_child(self):
        def on_line(line: str) -> None:
            pids.append(int(line))
            signal.raise_signal(signal.SIGINT)

        pids: list[int] = []
        with pytest.raises(KeyboardInterrupt):
            run(["sh", "-c", "echo $$; exec sleep 600"], timeout=600, on_line=on_line)
        assert ends_soon(pids[0])


class TestRequiredOutputs:
    def test_written_outputs_are_accepted(self, tmp_path):
        outputs = ["a", tmp_path / "b"]
        script = "echo x >a; echo y >b"
        run(["sh", "-c", script], timeout=600, cwd=tmp_path, required_outputs=outputs)

    def test_exit_code_is_reported_before_missing_outputs(self, tmp_path):
        with pytest.raises(ChildCrashedError, match="'false' ended with exit code 1"):
            run(["false"], timeout=600, required_outputs=[tmp_path / "a"])

    def test_missing_output_is_an_error(self, tmp_path):
        with pytest.raises(IsolationError) as caught:
            run(["echo", "ignore aten::tile"], timeout=600, required_outputs=[tmp_path / "a.bin"])
        assert type(caught.value) is IsolationError
        assert str(caught.value) == (
            f"'echo' ended with exit code 0 but did not write '{tmp_path / 'a.bin'}';"
            " its last output:\n  ignore aten::tile"
        )

    def test_folder_in_place_of_an_output_is_an_error(self, tmp_path):
        with pytest.raises(IsolationError, match="did not write"):
            run(["mkdir", "out"], timeout=600, required_outputs=["out"], cwd=tmp_path)

    def test_empty_output_is_an_error(self, tmp_path):
        with pytest.raises(IsolationError) as caught:
            run(["touch", "a"], timeout=600, cwd=tmp_path, required_outputs=["a"])
        assert str(caught.value) == (
            f"'touch' ended with exit code 0 but left '{tmp_path / 'a'}' empty; it printed nothing"
        )

    def test_older_output_is_an_error(self, tmp_path):
        (tmp_path / "a").write_text("from yesterday")
        with pytest.raises(IsolationError) as caught:
            run(["true"], timeout=600, cwd=tmp_path, required_outputs=["a"])
        assert str(caught.value) == (
            f"'true' ended with exit code 0 but did not write '{tmp_path / 'a'}':"
            " the existing file is older; it printed nothing"
        )
        assert (tmp_path / "a").read_text() == "from yesterday"

    def test_output_rewritten_with_the_same_bytes_is_accepted(self, tmp_path):
        (tmp_path / "a").write_text("same\n")
        os.utime(tmp_path / "a", (1, 1))
        run(["sh", "-c", "echo same >a"], timeout=600, cwd=tmp_path, required_outputs=["a"])


class TestTimeLimitOfABlock:
    def test_shorter_block_limit_ends_the_child(self):
        with time_limit(0.3), pytest.raises(ChildTimeoutError) as caught:
            run(["sleep", "600"], timeout=600)
        assert str(caught.value) == ("'sleep' ran past the time limit of 0.3 s; it printed nothing")

    @pytest.mark.slow
    def test_block_limit_covers_all_children_together(self, soon):
        with time_limit(1.5 * soon) as limit:
            run(["sleep", str(soon)], timeout=None)
            with pytest.raises(ChildTimeoutError):
                run(["sleep", str(soon)], timeout=None)
            assert limit.left == 0

    def test_shorter_limit_of_the_call_takes_precedence(self):
        with time_limit(600), pytest.raises(ChildTimeoutError, match=r"its time limit of 0\.1 s"):
            run(["sleep", "600"], timeout=0.1)

    def test_limit_ends_with_its_block(self):
        with time_limit(0.1):
            pass
        run(["sleep", "0.2"], timeout=600)
        check_time_limit()

    def test_limit_ends_work_in_this_process(self):
        with time_limit(600):
            check_time_limit()
            with time_limit(0), pytest.raises(ChildTimeoutError) as caught:
                check_time_limit()
        assert str(caught.value) == "the computation ran past the time limit of 0 s"
