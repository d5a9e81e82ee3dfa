"""A complete artifact gets its final name: the one that was meant, or nothing moves."""

from __future__ import annotations

import pytest

from enginebay.artifact import move_artifact, open_artifact
from enginebay.errors import ArtifactError, ArtifactExistsError


def test_an_artifact_gets_its_name(tmp_path, publish) -> None:
    made = publish(tmp_path / "attempt")
    moved = move_artifact(made.path, tmp_path / "all" / "model", made.digest)
    assert open_artifact(tmp_path / "all" / "model") == moved
    assert moved.digest == made.digest
    assert not made.path.exists()


def test_the_one_before_is_replaced(tmp_path, publish) -> None:
    old, new = publish(tmp_path / "model"), publish(tmp_path / "attempt", b"other")
    assert old.digest != new.digest
    move_artifact(new.path, old.path, new.digest)
    assert open_artifact(old.path).digest == new.digest


def test_another_artifact_stays_where_it_is(tmp_path, publish) -> None:
    wanted, found = publish(tmp_path / "wanted"), publish(tmp_path / "found", b"other")
    with pytest.raises(ArtifactError) as caught:
        move_artifact(found.path, tmp_path / "model", wanted.digest)
    assert str(caught.value) == (
        f'"{found.path}" is a different artifact: expected a manifest of sha256 {wanted.digest}, '
        f"found {found.digest}"
    )
    assert found.path.is_dir()
    assert not (tmp_path / "model").exists()


def test_a_damaged_file_does_not_move(tmp_path, publish) -> None:
    made = publish(tmp_path / "attempt")
    (made.path / "model.bin").write_bytes(b"weightz")
    with pytest.raises(ArtifactError, match="was changed"):
        move_artifact(made.path, tmp_path / "model", made.digest)
    assert not (tmp_path / "model").exists()


def test_what_is_no_artifact_is_not_replaced(tmp_path, publish) -> None:
    made = publish(tmp_path / "attempt")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").touch()
    with pytest.raises(ArtifactExistsError):
        move_artifact(made.path, tmp_path / "model", made.digest)
    assert made.path.is_dir()
