"""A complete artifact moves to its final path, and no other artifact does."""

from __future__ import annotations

import pytest

from enginebay.artifact import move_artifact, open_artifact
from enginebay.errors import ArtifactError, ArtifactExistsError


def test_a_moved_artifact_opens_at_its_new_path(tmp_path, publish) -> None:
    made = publish(tmp_path / "attempt")
    moved = move_artifact(made.path, tmp_path / "all" / "model", made.digest)
    assert open_artifact(tmp_path / "all" / "model") == moved
    assert moved.digest == made.digest
    assert not made.path.exists()


def test_moving_replaces_an_older_artifact(tmp_path, publish) -> None:
    old, new = publish(tmp_path / "model"), publish(tmp_path / "attempt", b"other")
    assert old.digest != new.digest
    move_artifact(new.path, old.path, new.digest)
    assert open_artifact(old.path).digest == new.digest


def test_an_artifact_with_a_different_digest_is_not_moved(tmp_path, publish) -> None:
    wanted, other = publish(tmp_path / "wanted"), publish(tmp_path / "other", b"other")
    with pytest.raises(ArtifactError) as caught:
        move_artifact(other.path, tmp_path / "model", wanted.digest)
    assert str(caught.value) == (
        f'"{other.path}" is a different artifact: expected a manifest of sha256 {wanted.digest}, '
        f"found {other.digest}"
    )
    assert other.path.is_dir()
    assert not (tmp_path / "model").exists()


def test_a_damaged_artifact_is_not_moved(tmp_path, publish) -> None:
    made = publish(tmp_path / "attempt")
    (made.path / "model.bin").write_bytes(b"weightz")
    with pytest.raises(ArtifactError, match="was changed"):
        move_artifact(made.path, tmp_path / "model", made.digest)
    assert not (tmp_path / "model").exists()


def test_moving_does_not_replace_other_folders(tmp_path, publish) -> None:
    made = publish(tmp_path / "attempt")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").touch()
    with pytest.raises(ArtifactExistsError):
        move_artifact(made.path, tmp_path / "model", made.digest)
    assert made.path.is_dir()
