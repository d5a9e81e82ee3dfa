"""Readers while another process replaces the artifact: one of them whole, or a clear line."""

from __future__ import annotations

import pytest

from enginebay.artifact import open_artifact, use_artifact
from enginebay.artifact.consistent_reading import ATTEMPTS, read_consistently
from enginebay.errors import ArtifactError

NEW, OLD = b"new", b"old"


def test_a_read_starts_again_with_the_artifact_that_replaced_it(tmp_path, publish):
    publish(tmp_path / "model", OLD)
    found = []

    def read(artifact):
        if not found:
            publish(tmp_path / "model", NEW, overwrite=True)
        found.append((artifact.path / "model.bin").read_bytes())
        return artifact

    artifact = use_artifact(tmp_path / "model", read)
    assert artifact.manifest == open_artifact(tmp_path / "model").manifest
    assert found == [NEW, NEW]  # the first with the manifest of the old one


def test_an_error_counts_only_where_the_artifact_stayed(tmp_path, publish):
    publish(tmp_path / "model", OLD)
    calls = []

    def read(artifact):
        calls.append(artifact)
        if len(calls) == 1:
            publish(tmp_path / "model", NEW, overwrite=True)
        raise ValueError(f"attempt {len(calls)}")

    with pytest.raises(ValueError, match="attempt 2"):
        use_artifact(tmp_path / "model", read)


def test_what_was_read_too_early_is_closed(tmp_path, publish):
    publish(tmp_path / "model", OLD)
    closed = []

    class Engine:
        def close(self):
            closed.append(self)

    def read(artifact):
        if not closed:
            publish(tmp_path / "model", NEW, overwrite=True)
        return Engine()

    engine = use_artifact(tmp_path / "model", read)
    assert len(closed) == 1
    assert engine not in closed


def test_an_open_artifact_that_is_replaced(tmp_path, publish):
    publish(tmp_path / "model", OLD)
    artifact = open_artifact(tmp_path / "model")
    assert artifact.samples() == []
    publish(tmp_path / "model", NEW, overwrite=True)
    with pytest.raises(ArtifactError) as caught:
        artifact.samples()
    assert str(caught.value) == (
        f'"{tmp_path}/model" was replaced by another artifact after it was opened'
    )
    assert caught.value.hint == "open it again"
    (tmp_path / "model" / "manifest.json").unlink()
    with pytest.raises(ArtifactError, match=r"manifest.json\" cannot be read: No such file"):
        artifact.samples()


def test_a_folder_that_is_replaced_all_the_time(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    calls = []

    def read():
        calls.append(folder.rename(tmp_path / f"old{len(calls)}"))
        folder.mkdir()

    with pytest.raises(ArtifactError) as caught:
        read_consistently(folder, read)
    assert str(caught.value) == (
        f'"{folder}" was replaced during each of {ATTEMPTS} attempts to read it'
    )
    assert caught.value.hint == "stop the process that keeps replacing it"
