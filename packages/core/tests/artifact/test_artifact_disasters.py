"""Kills, full disks and read-only folders, with real processes and real disks."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from enginebay.artifact import open_artifact, staging
from enginebay.errors import ArtifactError, ArtifactExistsError

PUBLISHER = """
import sys
from pathlib import Path
from enginebay.artifact import Manifest, PluginRecord, staging

def publish(target, content):
    made = Manifest(
        backend="loopback", plugin=PluginRecord("p", "1"), engine_version="1", model_files=("a",),
        command=content,
    )
    with staging(target, overwrite=True) as stage:
        for name in "abc":
            (stage.dir / name).write_text(content * 1000)
        stage.publish(made)
"""

FOREVER = f"""{PUBLISHER}
for count in range(10**9):
    publish(sys.argv[1], str(count))
    print(count, flush=True)
"""


def start(program: str, *arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def staging_folders(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if ".staging-" in path.name]


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_whole_artifact(tmp_path, publish):
    target, interrupted = tmp_path / "model", 0
    for seed in range(8):
        child = start(FOREVER, target)
        assert child.stdout is not None
        for _ in range(1 + seed % 3):
            child.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.02))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        artifact = open_artifact(target)  # checks the digest of every file
        assert (artifact.path / "a").read_text() == artifact.manifest.command * 1000
        interrupted += len(staging_folders(tmp_path))
    publish(target, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert interrupted > 0, "no kill interrupted a publication: nothing was tested"


def test_a_kill_before_publishing_leaves_no_artifact(tmp_path, publish):
    program = f"""{PUBLISHER}
import os, signal
with staging(sys.argv[1]) as stage:
    (stage.dir / "a").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    child = start(program, tmp_path / "model")
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    assert not (tmp_path / "model").exists()
    assert len(staging_folders(tmp_path)) == 1
    publish(tmp_path / "other")
    assert len(staging_folders(tmp_path)) == 1, "the staging folder of another artifact was removed"
    publish(tmp_path / "model")
    assert staging_folders(tmp_path) == []


def test_a_staging_folder_in_use_is_not_removed(tmp_path, publish, manifest):
    program = f"""{PUBLISHER}
made = Manifest(
    backend="b", plugin=PluginRecord("p", "1"), engine_version="1", model_files=("mine",)
)
with staging(sys.argv[1], overwrite=True) as stage:
    (stage.dir / "mine").touch()
    print("ready", flush=True)
    sys.stdin.readline()
    stage.publish(made)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "model")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    publish(tmp_path / "model", overwrite=True)
    assert len(staging_folders(tmp_path)) == 1
    child.communicate("continue\n")
    assert child.returncode == 0
    assert open_artifact(tmp_path / "model").files == (Path("mine"),)
    assert staging_folders(tmp_path) == []


def test_folders_with_a_similar_name_are_not_removed(tmp_path, publish):
    similar = [
        ".model.staging-backup",
        ".model.staging-0123456789abcdef0",
        "model.staging-0123456789abcdef",
        ".model2.staging-0123456789abcdef",
    ]
    for name in similar:
        (tmp_path / name).mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".model.staging-0123456789abcdef").symlink_to("elsewhere")
    (tmp_path / ".model.staging-fedcba9876543210").touch()
    publish(tmp_path / "model")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        *similar,
        "model",
        "elsewhere",
        ".model.staging-0123456789abcdef",
        ".model.staging-fedcba9876543210",
    }


@pytest.mark.parametrize("stop", [signal.SIGINT])
def test_an_interrupt_removes_the_staging_folder(tmp_path, stop):
    program = f"""{PUBLISHER}
import time
with staging(sys.argv[1]) as stage:
    (stage.dir / "a").touch()
    print("ready", flush=True)
    time.sleep(600)
"""
    child = start(program, tmp_path / "new" / "model")
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(stop)
    child.communicate()
    assert child.returncode == -signal.SIGINT
    assert list(tmp_path.iterdir()) == []


# Disks and permissions

ON_A_SMALL_DISK = f"""{PUBLISHER}
from enginebay.errors import ArtifactError
target = Path(sys.argv[1]) / "model"
publish(target, "old")
before = [(path, path.read_bytes()) for path in sorted(target.rglob("*"))]
try:
    publish(target, "new" * 500)
except ArtifactError as error:
    print(error)
    print(error.hint)
assert before == [(path, path.read_bytes()) for path in sorted(target.rglob("*"))]
assert [path.name for path in target.parent.iterdir()] == ["model"]
"""


def in_own_mounts(*script: str) -> subprocess.CompletedProcess[str]:
    """Run shell lines as root of a namespace, which removes its mounts when it ends."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-euc", "\n".join(script)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def needs_mounts(tmp_path) -> None:
    try:
        tried = in_own_mounts(f"mount -t tmpfs none '{tmp_path}'")
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if tried.returncode:
        pytest.skip(f"this system allows no mounts: {tried.stderr.strip()}")


def python_command(program: str, *arguments: str | Path) -> str:
    import shlex

    return shlex.join([sys.executable, "-c", program, *map(str, arguments)])


def test_a_full_disk_leaves_the_old_artifact(tmp_path, needs_mounts):
    done = in_own_mounts(
        f"mount -t tmpfs -o size=1m none '{tmp_path}'", python_command(ON_A_SMALL_DISK, tmp_path)
    )
    assert done.stderr == ""
    assert done.stdout == (
        f'the artifact "{tmp_path}/model" cannot be written: No space left on device\n'
        "free some space, or choose another --work-dir\n"
    )


def test_a_disk_full_at_the_manifest_leaves_the_old_artifact(tmp_path, needs_mounts):
    program = f"""{PUBLISHER}
from enginebay.errors import ArtifactError
target = Path(sys.argv[1]) / "model"
publish(target, "old")
made = Manifest(
    backend="b", plugin=PluginRecord("p", "1"), engine_version="1", model_files=("a",)
)
try:
    with staging(target, overwrite=True) as stage:
        with open(stage.dir / "a", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        stage.publish(made)
except ArtifactError as error:
    print(error)
assert (target / "a").read_text() == "old" * 1000
assert [path.name for path in target.parent.iterdir()] == ["model"]
"""
    done = in_own_mounts(
        f"mount -t tmpfs -o size=1m none '{tmp_path}'", python_command(program, tmp_path)
    )
    assert done.stderr == ""
    assert done.stdout == (
        f'the artifact "{tmp_path}/model" cannot be written: No space left on device\n'
    )


REFUSED = f"""{PUBLISHER}
import os
from enginebay.errors import EnginebayError
import ctypes, fcntl, json  # imported while the process still may read the library
if len(sys.argv) > 2:
    os.setuid(int(sys.argv[2]))
try:
    publish(sys.argv[1], "x")
except EnginebayError as error:
    print(error)
    print(error.hint)
"""


def test_a_read_only_disk_is_reported(tmp_path, needs_mounts):
    done = in_own_mounts(
        f"mount -t tmpfs -o ro none '{tmp_path}'", python_command(REFUSED, tmp_path / "model")
    )
    assert done.stderr == ""
    assert done.stdout == (
        f'the artifact "{tmp_path}/model" cannot be written: Read-only file system\n'
        "choose another --work-dir\n"
    )


def test_a_mount_point_cannot_be_replaced(tmp_path, needs_mounts):
    done = in_own_mounts(f"mount -t tmpfs none '{tmp_path}'", python_command(REFUSED, tmp_path))
    assert done.stderr == ""
    assert done.stdout == (
        f'"{tmp_path}" is a mount point and cannot be replaced: expected another directory\n'
        f'--work-dir "{tmp_path}/model"\n'
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
@pytest.mark.parametrize("mode", [0o755, 0o700])
@pytest.mark.parametrize("name", ["model", "new/model"])
def test_a_folder_without_write_permission_is_reported(public_path, mode, name):
    folder = public_path / "theirs"
    folder.mkdir()
    folder.chmod(mode)
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, str(folder / name), "65534"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (
        f'the artifact "{folder}/{name}" cannot be written: Permission denied\n'
        "choose another --work-dir\n"
    )
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
def test_an_artifact_is_published_in_an_unlistable_folder(public_path):
    folder = public_path / "post"
    folder.mkdir()
    folder.chmod(0o733)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", REFUSED, str(folder / "model"), "65534"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == ""
    assert open_artifact(folder / "model").manifest.command == "x"
    assert [path.name for path in folder.iterdir()] == ["model"]


def test_concurrent_overwrites_leave_a_whole_artifact(tmp_path, publish):
    program = f"{PUBLISHER}\nfor i in range(20): publish(sys.argv[1], sys.argv[2] + str(i))"
    publish(tmp_path / "model", overwrite=True)
    (tmp_path / "model" / "parts" / "weights.data").unlink()
    children = [start(program, tmp_path / "model", name) for name in "pqr"]
    for child in children:
        child.communicate()
        assert child.returncode == 0
    artifact = open_artifact(tmp_path / "model")
    assert (artifact.path / "a").read_text() == artifact.manifest.command * 1000
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_file_as_parent_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ArtifactExistsError) as caught, staging(tmp_path / "file" / "a" / "model"):
        pytest.fail("the work must not begin")
    assert str(caught.value) == f'"{tmp_path}/file" is a file: expected a directory'
    assert caught.value.hint == "choose another --work-dir"


def test_a_too_long_name_is_refused(tmp_path):
    name = "x" * 256
    with pytest.raises(ArtifactError) as caught, staging(tmp_path / name):
        pytest.fail("the work must not begin")
    assert str(caught.value) == (
        f'the artifact "{tmp_path}/{name}" cannot be written: File name too long'
    )


def test_a_file_beyond_the_size_limit_is_reported(tmp_path):
    program = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n{REFUSED}"
    done = subprocess.run(
        [sys.executable, "-c", program.replace('"x"', '"x" * 9'), str(tmp_path / "model")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (
        f'the artifact "{tmp_path}/model" cannot be written: File too large\n'
        "choose another --work-dir\n"
    )
    assert list(tmp_path.iterdir()) == []
