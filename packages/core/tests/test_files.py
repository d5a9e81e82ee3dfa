"""Files that several processes share: replaced as a whole, and locked by one process at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import enginebay
from enginebay.authors.files import lock_file, replacement
from enginebay.files import lock_folder

HOLD = (
    "import sys, time; from pathlib import Path; from enginebay import files\n"
    "with getattr(files, sys.argv[1])(Path(sys.argv[2])):\n"
    "    print(flush=True)\n"
    "    time.sleep(60)\n"
)


def hold(kind: str, path: Path) -> subprocess.Popen[str]:
    """Start a process that holds a lock."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, kind, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    return child


@pytest.mark.parametrize("lock", [lock_file, lock_folder])
def test_a_lock_is_held_by_one_process_and_released_by_a_kill(lock, tmp_path: Path) -> None:
    path = tmp_path if lock is lock_folder else tmp_path / "a.lock"
    with lock(path) as held:
        assert held.is_held
    child = hold(lock.__name__, path)
    try:
        with pytest.raises(BlockingIOError), lock(path, wait=False):
            pass
        child.kill()
        with lock(path):
            pass
    finally:
        child.kill()
        child.communicate()


def test_a_forked_child_does_not_keep_its_parents_lock(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with lock_file(tmp_path / "a.lock"):
        child = os.fork()
        if not child:
            os.write(writer, b"started")
            time.sleep(60)
            os._exit(0)
    os.read(reader, 7)
    try:
        with lock_file(tmp_path / "a.lock", wait=False) as lock:
            assert lock.is_held
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_symbolic_link_is_no_lock_file(tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"), lock_file(tmp_path / "link"):
        pass


def test_an_error_keeps_the_old_file_and_its_permissions_stay(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"old")
    file.chmod(0o640)
    with pytest.raises(TypeError), replacement(file) as new:
        new.writelines([b"half", "no bytes"])  # type: ignore[list-item]  # the error under test
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (b"old", [file])
    with replacement(file) as new:
        new.write(b"new")
        assert file.read_bytes() == b"old"
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (b"new", [file])
    assert file.stat().st_mode & 0o777 == 0o640


def test_locks_are_taken_in_one_file() -> None:
    source = Path(enginebay.__file__).parent
    users = [file.name for file in source.rglob("*.py") if "flock(" in file.read_text()]
    assert users == ["files.py"]
