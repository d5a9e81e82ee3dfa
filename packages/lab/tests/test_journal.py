"""Files that survive a full disk and a killed writer."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from enginebay.authors.files import write_whole
from enginebay.errors import EnginebayError, UsageError
from enginebay_lab.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Record(msgspec.Struct, frozen=True):
    name: str
    value: float | None = None


def names(path: Path) -> list[str]:
    return [entry.name for _, entry in Journal(path, "test row").read(Record)]


def test_records_are_lines(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    lines = Journal(file, "test row")
    lines.open(resume=False, hint="")
    lines.append(Record("ü", 0.1))
    lines.append({"name": "two"})
    head = '{"kind":"test row","schema":1,"name":'
    assert file.read_text() == f'{head}"ü","value":0.1}}\n{head}"two"}}\n'
    assert names(file) == ["ü", "two"]
    with pytest.raises(UsageError, match=r"lines.jsonl' already exists\nhint: another"):
        lines.open(resume=False, hint="another")
    assert Journal(tmp_path / "nowhere", "test row").read(Record) == []


WHOLE = b'{"kind":"test row","schema":1,"name":"a"}\n{"kind":"test row","schema":1,"name":"b"}\n'


@given(cut=st.integers(0, len(WHOLE)))
def test_a_line_that_was_cut_short_is_ignored(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    file = tmp_path_factory.mktemp("cut") / "lines.jsonl"
    file.write_bytes(WHOLE[:cut])
    half = len(WHOLE) // 2
    whole = ["a"] * (cut >= half - 1) + ["b"] * (cut >= len(WHOLE) - 1)
    lines = Journal(file, "test row")
    assert [entry.name for _, entry in lines.read(Record)] == whole
    lines.append(Record("c"))
    assert names(file) == [*whole, "c"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"name,value\n", "'{}' contains no test rows: "),
        (b"\xff\xfe\x00", "'{}' contains no test rows: "),
        (b'{"kind":"test row","schema":1,"title":"a"}\n', "'{}' contains no test rows: "),
        (b'{"name":"a"}\n', "'{}' contains no test rows: "),
        (WHOLE + b"text\n", "line 3 of '{}' contains no test row: "),
        (
            WHOLE + b'{"kind":"test row","schema":1}\n' + WHOLE,
            "line 3 of '{}' contains no test row: ",
        ),
        (
            WHOLE + b'{"kind":"test row","schema":7,"new":1}\n',
            "'{}' contains test rows of version 7; expected test rows of version 1",
        ),
        (
            b'{"kind":"other row","schema":1}\n',
            "'{}' contains other rows of version 1; expected test rows of version 1",
        ),
        (
            b'{"kind":"test row","schema":1,"new":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
            "'{}' contains no test rows: the JSON is nested too deeply",
        ),
    ],
)
def test_a_file_with_other_content_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        names(file)
    assert str(caught.value).startswith(message.format(file))
    assert caught.value.hint == "name a different file"
    assert file.read_bytes() == data


def limited(code: str, size: int) -> subprocess.CompletedProcess[str]:
    """Run code whose files have a size limit, as on a full disk."""

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=small_files,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONDONTWRITEBYTECODE": "1",  # Python 3.11 would leave half of a .pyc
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "write",
    [
        "Journal(file, 'test row').append({'name': 'c' * 99})",
        "write_whole(file, b'x' * 999)",
    ],
)
def test_a_full_disk_is_an_error_and_keeps_the_content(tmp_path: Path, write: str) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_bytes(WHOLE)
    done = limited(
        "from pathlib import Path\n"
        "from enginebay.authors.files import write_whole\n"
        "from enginebay_lab.journal import Journal\n"
        f"file = Path({str(file)!r})\n{write}",
        len(WHOLE) + 20,
    )
    error = done.stderr.splitlines()[-2]
    assert error == f"enginebay.errors.EnginebayError: '{file}' cannot be written: File too large"
    assert file.read_bytes().startswith(WHOLE)
    assert list(tmp_path.iterdir()) == [file]
    assert names(file) == ["a", "b"]


def test_a_file_is_replaced_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "new" / "data.json"
    write_whole(file, b"one")
    write_whole(file, b"two")
    assert file.read_bytes() == b"two"
    for number, kind in [(errno.ENOSPC, EnginebayError), (errno.EIO, OSError)]:
        monkeypatch.setattr(os, "fsync", _raising(OSError(number, os.strerror(number))))
        with pytest.raises(kind, match=r"data\.json"):
            write_whole(file, b"three")
        assert list(file.parent.iterdir()) == [file]
        assert file.read_bytes() == b"two"
    with pytest.raises(FileExistsError):
        write_whole(file / "below", b"")


def _raising(error: OSError) -> Callable[..., Any]:
    def fsync(_: int) -> None:
        raise error

    return fsync


def test_writers_in_several_processes_do_not_mix_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    code = (
        "import sys; from pathlib import Path; from enginebay_lab.journal import Journal\n"
        f"lines = Journal(Path({str(file)!r}), 'test row')\n"
        "for n in range(100): lines.append({'name': sys.argv[1] * 5000})"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [subprocess.Popen([sys.executable, "-c", code, name], env=env) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    found = [json.loads(line)["name"] for line in file.read_text().splitlines()]
    assert sorted(found) == ["a" * 5000] * 100 + ["b" * 5000] * 100
