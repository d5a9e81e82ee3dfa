from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from enginebay.artifact import open_artifact
from enginebay.artifact.opening import check_pinned
from enginebay.errors import ArtifactError
from enginebay.verdict import Verification

REBUILD_HINT = "copy the whole artifact again, or rebuild it with the command in its manifest"


@pytest.fixture
def folder(tmp_path, publish) -> Path:
    return publish(tmp_path / "model").path


def refused(folder: Path | str) -> ArtifactError:
    with pytest.raises(ArtifactError) as caught:
        open_artifact(folder)
    assert "\n" not in str(caught.value)
    return caught.value


def test_an_artifact_opens(folder):
    artifact = open_artifact(str(folder))
    assert artifact.path == folder
    assert artifact.backend == "loopback"
    assert artifact.files == (Path("model.bin"),)
    assert artifact.inputs == artifact.outputs == ()
    assert artifact.verdict == "unverified"
    assert open_artifact(artifact) is artifact


def test_the_recorded_verdict_is_read(tmp_path, publish):
    made = publish(tmp_path / "model", verification=Verification.crashed("signal 11"))
    assert made.verdict == open_artifact(tmp_path / "model").verdict == "crashed"


def test_the_path_is_absolute_and_resolved(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    Path("latest").symlink_to("model")
    assert open_artifact("latest").path == open_artifact("model").path == folder


def test_moved_and_copied_artifacts_open(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "deep" / "er" / "copy")
    moved = folder.rename(tmp_path / "moved")
    assert open_artifact(moved).manifest == open_artifact(tmp_path / "deep/er/copy").manifest


def test_a_missing_directory_is_refused(tmp_path):
    error = refused(tmp_path / "none")
    assert str(error) == f'"{tmp_path}/none" does not exist: expected the directory of an artifact'


def test_a_misspelled_directory_gets_a_suggestion(folder):
    (folder.parent / "models").mkdir()  # no artifact
    assert refused(folder.parent / "modell").hint == f"did you mean '{folder}'?"
    assert refused(folder.parent / "other").hint == "artifacts beside it: model"
    assert refused(folder.parent / "models" / "other").hint is None


def test_an_artifact_one_level_up_or_down_is_suggested(folder, tmp_path):
    within = tmp_path / "a[b]c"
    within.mkdir()
    inside, other = (shutil.copytree(folder, within / name) for name in ("inside", "other"))
    meant = f"did you mean '{inside}'?"
    for wrong in ("inside", "a[b]c/insid", "a[b]c/new/inside"):
        assert refused(tmp_path / wrong).hint == meant, wrong
    assert refused(inside / "model.bin").hint == refused(inside / "ir" / "model.onnx").hint == meant
    assert refused(within).hint == f"did you mean '{inside}' or '{other}'?"
    (inside / "manifest.json").write_text('{"name": "a page"}')
    assert refused(within).hint == f"did you mean '{other}'?", "another tool's manifest"
    assert refused(Path("/")).hint is None


def test_a_model_file_instead_of_an_artifact_is_to_be_deployed(tmp_path):
    (tmp_path / "net.onnx").touch()
    assert refused(tmp_path / "net.onnx").hint == (
        f"deploy the model first: enginebay deploy {tmp_path}/net.onnx"
    )


def test_a_file_instead_of_a_directory_is_refused(tmp_path):
    (tmp_path / "model.onnx").touch()
    error = refused(tmp_path / "model.onnx")
    assert str(error) == (
        f'"{tmp_path}/model.onnx" is not a directory: expected the directory of an artifact'
    )


def test_a_directory_without_a_manifest_is_refused(tmp_path):
    assert (
        str(refused(tmp_path)) == f'"{tmp_path}" is not an artifact: it contains no manifest.json'
    )
    (tmp_path / "manifest.json").mkdir()
    assert (
        str(refused(tmp_path)) == f'"{tmp_path}" is not an artifact: it contains no manifest.json'
    )


def test_a_changed_file_is_refused(folder):
    (folder / "model.bin").write_bytes(b"weightz")
    wanted, found = (hashlib.sha256(data).hexdigest() for data in (b"weights", b"weightz"))
    error = refused(folder)
    assert str(error) == (
        f'"{folder}/model.bin" was changed: expected sha256 {wanted}, found {found}'
    )
    assert error.hint == REBUILD_HINT


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty: expected 7 bytes, found 0"),
        (b"weight", "is truncated: expected 7 bytes, found 6"),
        (b"weights!", "was changed: expected 7 bytes, found 8"),
    ],
)
def test_a_file_of_different_size_is_refused(folder, content, text):
    (folder / "model.bin").write_bytes(content)
    assert str(refused(folder)) == f'"{folder}/model.bin" {text}'


def test_sizes_are_checked_before_digests(folder):
    (folder / "model.bin").write_bytes(b"weightz")
    (folder / "parts" / "weights.data").write_bytes(b"")
    assert "weights.data" in str(refused(folder))


def test_a_missing_file_is_refused(folder):
    (folder / "parts" / "weights.data").unlink()
    text = f'"{folder}/parts/weights.data" is missing, but listed in the manifest'
    assert str(refused(folder)) == text
    (folder / "parts").rmdir()
    (folder / "parts").touch()
    assert str(refused(folder)) == text


def test_unlisted_files_are_ignored(folder):
    (folder / "NOTES.txt").write_text("mine")
    (folder / "parts" / ".nfs0001").touch()
    assert open_artifact(folder).verdict == "unverified"


@pytest.mark.parametrize("kind", ["fifo", "socket", "directory"])
def test_fifos_sockets_and_directories_are_not_read(folder, kind, monkeypatch):
    (folder / "model.bin").unlink()
    if kind == "fifo":
        os.mkfifo(folder / "model.bin")  # opening a fifo would never return
    elif kind == "directory":
        (folder / "model.bin").mkdir()
    else:
        monkeypatch.chdir(folder)  # a socket's path is limited to some 100 bytes
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("model.bin")
    assert str(refused(folder)) == f'"{folder}/model.bin" is not a regular file'


def test_a_link_out_of_the_artifact_is_refused(folder, tmp_path):
    outside = tmp_path / "outside.bin"
    (folder / "model.bin").rename(outside)
    (folder / "model.bin").symlink_to(outside)
    assert str(refused(folder)) == f'"{folder}/model.bin" leads out of the artifact, to "{outside}"'


def test_a_folder_linked_out_of_the_artifact_is_refused(folder, tmp_path):
    (folder / "parts").rename(tmp_path / "parts")
    (folder / "parts").symlink_to("../parts")
    assert "leads out of the artifact" in str(refused(folder))


def test_a_link_inside_the_artifact_is_followed(folder):
    (folder / "model.bin").rename(folder / "real.bin")
    (folder / "model.bin").symlink_to("real.bin")
    assert open_artifact(folder).path == folder


def test_a_circular_link_is_refused(folder):
    (folder / "model.bin").unlink()
    (folder / "model.bin").symlink_to("model.bin")
    assert str(refused(folder)) == f'"{folder}/model.bin" is not a regular file'


def relist(folder: Path, *paths: str, model_files: tuple[str, ...] = ()) -> Path:
    where = folder / "manifest.json"
    data = json.loads(where.read_text())
    data["files"] = [{"path": path, "sha256": "0", "size": 1} for path in paths]
    data["model_files"] = model_files
    where.write_text(json.dumps(data))
    return where


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "/etc/passwd",
        "../secret",
        "parts/../../secret",
        "parts/../model.bin",
        "./model.bin",
        "parts//weights.data",
        "parts/",
        "..\\secret",
        "C:secret",
        "nul\0byte",
        "manifest.json",
    ],
)
def test_outside_or_unnormalized_paths_are_refused(folder, path):
    where = relist(folder, path)
    text = f'"{where}" lists the file {path!r}: expected a path inside the artifact'
    assert str(refused(folder)) == text


def test_a_file_listed_twice_is_refused(folder):
    where = relist(folder, "model.bin", "model.bin")
    assert str(refused(folder)) == f'"{where}" lists the file "model.bin" twice'


def test_a_manifest_without_a_model_file_is_refused(folder):
    where = relist(folder, "model.bin")
    error = refused(folder)
    assert str(error) == f'"{where}" lists no model file: expected the engine\'s files'
    assert error.hint == REBUILD_HINT


@pytest.mark.parametrize("field", ["backend", "command", "params", "created"])
def test_a_lone_surrogate_in_a_manifest_is_refused(folder, field):
    where = folder / "manifest.json"
    data = json.loads(where.read_text())
    data[field] = {"device": "\ud800"} if field == "params" else "\ud800"
    where.write_text(json.dumps(data))
    assert str(refused(folder)).startswith(
        f'"{where}" is not an Enginebay manifest: JSON is malformed: unexpected end of hex escape'
    )


def test_a_model_file_without_a_digest_is_refused(folder):
    where = relist(folder, model_files=("model.bin",))
    assert str(refused(folder)) == f'"{where}" lists the model file "model.bin" without a digest'


def test_a_different_pinned_property_is_refused(manifest):
    bound = manifest(pinned={"engine_version": "10.16", "device_name": "H200"}, command="make it")
    check_pinned(bound, {"engine_version": "10.16", "device_name": "H200", "driver": "any"})
    with pytest.raises(ArtifactError) as caught:
        check_pinned(bound, {"engine_version": "11.4", "device_name": "H200"})
    assert str(caught.value) == ('the artifact runs only with engine_version "10.16", found "11.4"')
    assert caught.value.hint == "make it"
    with pytest.raises(ArtifactError) as caught:
        check_pinned(manifest(pinned={"device_name": "H200"}), {})
    assert str(caught.value) == 'the artifact runs only with device_name "H200", found none'
    assert caught.value.hint == "deploy the model again here"


def test_an_artifact_without_pinned_properties_fits_everywhere(manifest):
    check_pinned(manifest(), {"engine_version": "0"})


UNREADABLE = """
import os, sys
from enginebay.artifact import open_artifact
from enginebay.errors import ArtifactError
os.setuid(65534)
try:
    open_artifact(sys.argv[1])
except ArtifactError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
@pytest.mark.parametrize("name", ["model.bin", "manifest.json"])
def test_an_unreadable_file_is_reported(public_path, publish, name):
    folder = publish(public_path / "model").path
    (folder / name).chmod(0)
    done = subprocess.run(
        [sys.executable, "-c", UNREADABLE, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout == f'"{folder}/{name}" cannot be read: Permission denied\n'
