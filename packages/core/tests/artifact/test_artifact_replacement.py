"""Reads during a replacement return one whole artifact, or raise an error."""

from __future__ import annotations

import pytest

from enginebay.artifact import open_artifact, use_artifact
from enginebay.artifact.consistent_reading import ATTEMPTS, read_consistently
from enginebay.errors import ArtifactError

NEW, OLD = b"new", b"old"


def test_a_read_restarts_after_a_replacement(tmp_path, publish):
    publish(tmp_path / "model", OLD)
    contents = []

    def read(artifact):
        if not contents:
            publish(tmp_path / "model", NEW, overwrite=True)
        contents.append((artifact.path / "model.bin").read_bytes())
        return artifact

    artifact = use_artifact(tmp_path / "model", read)
    assert artifact.manifest == open_artifact(tmp_path / "model").manifest
    assert contents == [NEW, NEW]  # the first read still had the old manifest


def test_a_read_that_fails_during_a_replacement_restarts(tmp_path, publish):
    publish(tmp_path / "model", OLD)
    calls = []

    def read(artifact):
        calls.append(artifact)
        if len(calls) == 1:
            publish(tmp_path / "model", NEW, overwrite=True)
        raise ValueError(f"attempt {len(calls)}")

    with pytest.raises(ValueError, match="attempt 2"):
        use_artifact(tmp_path / "model", read)


def test_the_engine_of_a_replaced_artifact_is_closed(tmp_path, publish):
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


def test_reading_an_open_artifact_after_its_replacement_is_refused(tmp_path, publish):
    publish(tmp_path / "model", OLD)
    artifact = open_artifact(tmp_path / "model")
    assert artifact.samples() == []
    publish(tmp_path / "model", NEW, overwrite=True)
    with pytest.raises(ArtifactError) as caught:
        artifact.samples()
    assert str(caught.value) == (
        f'"{tmp_path}/model" was replaced by another artifact after it was opened'
    )
    assert caught.value.hint == "open the artifact again"
    (tmp_path / "model" / "manifest.json").unlink()
    with pytest.raises(ArtifactError, match=r"manifest.json\" cannot be read: No such file"):
        artifact.samples()


def test_reading_ends_after_repeated_replacements(tmp_path):
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
    assert caught.value.hint == "stop the process that replaces the folder"
