"""The file with a sweep's rows: kills, full disks, two writers, and files of something else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from enginebay.errors import UsageError
from enginebay_lab.sweeps.rows_file import RowsFile, read_rows
from enginebay_lab.sweeps.sweep_rows import SweepRow

if TYPE_CHECKING:
    from pathlib import Path


def row(key: str, **fields: Any) -> SweepRow:
    named = {"backend": "loopback", "precision": "fp32", "verdict": "verified", "model": "net.py"}
    return SweepRow(key=key, **{**named, **fields})


def lost(key: str) -> SweepRow:
    return row(key, verdict="lost", fault="worker died", reason="it was killed")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with rows of the cells a, b, which was lost, and c."""
    path = tmp_path / "out" / "rows.jsonl"
    with RowsFile(path, resume=False) as rows:
        for each in (row("a"), lost("b"), row("c", params={"threads": 2}, seconds=1.5)):
            rows.append(each)
    return path


def keys(path: Path) -> list[str]:
    return [each.key for each in read_rows(path)]


def test_a_row_is_in_the_file_as_soon_as_it_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "rows.jsonl"
    with RowsFile(path, resume=True) as rows:
        for count, key in enumerate("ab", 1):
            rows.append(row(key))
            assert path.read_bytes().count(b"\n") == count
        rows.append(row("a", verdict="failed"))  # a cell has one row
        assert [each.verdict for each in read_rows(path.parent)] == ["verified", "verified"]
        assert rows.rows == {"a": row("a"), "b": row("b")}


def test_resume_removes_rows_with_faults_only(file: Path) -> None:
    with RowsFile(file, resume=True) as rows:
        assert list(rows.rows) == ["a", "c"]
        assert keys(file) == ["a", "c"]
        rows.append(row("b"))
        assert keys(file) == ["a", "c", "b"]
    before = file.stat().st_ino
    with RowsFile(file, resume=True) as rows:
        assert rows.rows["c"] == row("c", params={"threads": 2}, seconds=1.5)
    assert file.stat().st_ino == before  # what is whole is not written again


def test_fields_of_a_later_enginebay_stay(file: Path) -> None:
    first, *others = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first.replace(b'"model"', b'"later":1,"model"') + b"".join(others))
    with RowsFile(file, resume=True):
        pass
    assert b'"later":1' in file.read_bytes()


def test_the_last_row_of_a_cell_is_used(file: Path) -> None:
    line = msgspec.json.encode(
        {"kind": "sweep row", "schema": 1, **msgspec.to_builtins(row("a", seconds=9.0))}
    )
    file.write_bytes(file.read_bytes() + line + b"\n")
    with RowsFile(file, resume=True) as rows:
        assert rows.rows["a"].seconds == 9
    assert keys(file) == ["a", "c"]


def test_without_resume_an_existing_file_is_not_changed(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(UsageError) as caught:
        RowsFile(file, resume=False)
    assert str(caught.value) == f"'{file}' already exists"
    assert caught.value.hint == "add --resume to continue the sweep, or name a different folder"
    assert file.read_bytes() == before
    RowsFile(file, resume=True).close()  # no lock was left


def test_a_killed_writer_loses_only_its_last_row(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    code = (
        "from pathlib import Path; from enginebay_lab import SweepRow\n"
        "from enginebay_lab.sweeps.rows_file import RowsFile\n"
        f"rows = RowsFile(Path({str(file)!r}), resume=False)\n"
        "fields = dict(backend='b', precision='', verdict='verified', model='m' * 100_000)\n"
        "for n in range(10**9): rows.append(SweepRow(key=str(n), **fields)); print(n, flush=True)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        printed = [writer.stdout.readline() for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        printed += writer.stdout.readlines()
    whole = [str(n) for n in range(len(printed))]
    for cut in (0, 1, 50):  # a kill in the middle of a write
        data = file.read_bytes()
        file.write_bytes(data[: len(data) - cut])
        kept = [*keys(file)]
        with RowsFile(file, resume=True) as rows:  # the lock ended with its process
            assert list(rows.rows) == kept
        assert kept[: len(whole) - 2] == whole[: len(whole) - 2]
        assert file.read_bytes().endswith(b"}\n")
        assert keys(file) == kept


def test_only_one_sweep_writes_to_a_file(file: Path) -> None:
    message = f"another sweep writes to '{file}'"
    code = (
        "from pathlib import Path; from enginebay_lab.sweeps.rows_file import RowsFile\n"
        f"RowsFile(Path({str(file)!r}), resume=True)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with RowsFile(file, resume=True) as rows:
        with pytest.raises(UsageError) as caught:
            RowsFile(file, resume=True)
        assert str(caught.value) == message
        assert caught.value.hint == "wait until that sweep has ended, or name a different folder"
        other = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
        )
        assert message in other.stderr
        rows.append(row("b"))
        assert keys(file) == ["a", "c", "b"]  # who only reads waits for nobody
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0


def test_a_worker_that_was_forked_holds_no_lock(file: Path) -> None:
    code = (
        "import os, time; from pathlib import Path\n"
        "from enginebay_lab.sweeps.rows_file import RowsFile\n"
        f"rows = RowsFile(Path({str(file)!r}), resume=True)\n"
        "if not os.fork(): print(os.getpid(), flush=True)\n"
        "time.sleep(600)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        child = int(writer.stdout.readline())
        writer.kill()
        writer.wait()
        try:
            RowsFile(file, resume=True).close()
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            "name,value\n",
            "'{}' contains no sweep rows: JSON is malformed: invalid character (byte 4)",
        ),
        (
            '{"kind":"evaluation row","schema":1,"artifact":"a","metric":"accuracy"}\n',
            "'{}' contains evaluation rows of version 1; expected sweep rows of version 1",
        ),
        (
            '{"kind":"sweep row","schema":2,"key":"a"}\n',
            "'{}' contains sweep rows of version 2; expected sweep rows of version 1",
        ),
    ],
)
def test_a_file_with_other_contents_is_not_changed(tmp_path: Path, data: str, message: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(data)
    with pytest.raises(UsageError) as caught:
        RowsFile(file, resume=True)
    assert str(caught.value) == message.format(file)
    with pytest.raises(UsageError) as caught:
        read_rows(file)
    assert str(caught.value) == message.format(file)
    assert file.read_text() == data


def test_files_without_rows(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "rows.jsonk").touch()
    for name, message, hint in [
        ("empty.jsonl", "'{}' contains no rows yet; expected the rows.jsonl of a sweep", None),
        (
            "rows.jsonl",
            "'{}' does not exist; expected the rows.jsonl of a sweep",
            f"did you mean '{tmp_path}/rows.jsonk'?",
        ),
    ]:
        with pytest.raises(UsageError) as caught:
            read_rows(tmp_path / name)
        assert str(caught.value) == message.format(tmp_path / name)
        assert caught.value.hint == hint
    with RowsFile(tmp_path / "empty.jsonl", resume=True) as rows:
        assert rows.rows == {}


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    for path in ("out/rows.jsonl", "out/below/rows.jsonl"):
        with pytest.raises(
            UsageError, match=r"/out' is not a folder\nhint: name a different folder"
        ):
            RowsFile(tmp_path / path, resume=False)


def test_rows_whose_files_changed_are_removed_to_be_run_again(file: Path) -> None:
    with RowsFile(file, resume=True, is_stale=lambda each: each.key == "c") as rows:
        assert list(rows.rows) == ["a"]
    assert keys(file) == ["a"]
