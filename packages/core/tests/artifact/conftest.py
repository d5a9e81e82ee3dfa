from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from enginebay.artifact import Artifact, Manifest, PluginRecord, staging

Publish = Callable[..., Artifact]


def manifest_of(*model_files: str, **fields: object) -> Manifest:
    plugin = PluginRecord("enginebay-loopback", "0.1.0")
    return Manifest(
        backend="loopback", plugin=plugin, engine_version="1.0", model_files=model_files, **fields
    )


@pytest.fixture
def publish() -> Publish:
    """Publish an artifact with a model file and its weights; fields are those of the manifest."""

    def publish(
        target: Path, content: bytes = b"weights", *, overwrite: bool = False, **fields: object
    ) -> Artifact:
        with staging(target, overwrite=overwrite) as stage:
            (stage.dir / "model.bin").write_bytes(content)
            (stage.dir / "parts").mkdir()
            (stage.dir / "parts" / "weights.data").write_bytes(content * 3)
            return stage.publish(manifest_of("model.bin", **fields))

    return publish


@pytest.fixture
def manifest() -> Callable[..., Manifest]:
    return manifest_of


@pytest.fixture
def snapshot() -> Callable[[Path], dict[str, object]]:
    """Read the names, contents, modes, times and inodes of all files under a folder."""

    def snapshot(folder: Path) -> dict[str, object]:
        return {
            path.relative_to(folder).as_posix(): (
                path.read_bytes() if path.is_file() else None,
                path.lstat().st_mode,
                path.lstat().st_mtime_ns,
                path.lstat().st_ino,
            )
            for path in (folder, *sorted(folder.rglob("*")))
        }

    return snapshot


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A folder for child processes without root's rights, which cannot open pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name).resolve()
