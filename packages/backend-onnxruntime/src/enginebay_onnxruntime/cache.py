"""A cache of optimised models on disk, so that later loads skip the optimisation.

::

    FOLDER/KEY/model.onnx        the optimised model
               model.onnx.data   its weights
               sha256            the digest of the other two files

An entry is written atomically: into a temporary folder, which is then renamed.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import onnxruntime

MODEL = "model.onnx"
_DIGEST = "sha256"
#: The session configuration entries that write the weights to a file next to the optimised model.
#: Always: protobuf files are limited to 2 GB, and without these entries the optimised model refers
#: to the original's external data, which is in another folder. Small tensors stay in the model,
#: because shape inference reads axes and shapes before external data is loaded.
_WEIGHTS_BESIDE = {
    "session.optimized_model_external_initializers_file_name": f"{MODEL}.data",
    "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
}


def locate_entry(folder: str, files: Iterable[Path], settings: object) -> Path:
    """Return the folder of the cache entry for a model's files and the optimisation's settings."""
    digest = hashlib.sha256(f"{settings!r} {describe_processor()}".encode())
    digest.update(digest_files(files).encode())
    return Path(folder) / digest.hexdigest()


def describe_processor() -> str:
    """Return the processor's instruction sets, since an optimised model depends on them."""
    import platform

    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return f"{platform.machine()} {platform.processor()}"


def digest_files(files: Iterable[Path]) -> str:
    """Return the SHA-256 of the files' SHA-256 digests, in hex."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def find_model(entry: Path) -> Path | None:
    """Return the path of the model in a cache entry; None if a file is missing or was changed."""
    with suppress(OSError):  # without an entry
        if (entry / _DIGEST).read_text(encoding="ascii") == digest_files(_list_contents(entry)):
            return entry / MODEL
    return None


def _list_contents(entry: Path) -> list[Path]:
    return sorted(path for path in entry.iterdir() if path.name != _DIGEST)


@contextmanager
def write_entry(entry: Path, options: onnxruntime.SessionOptions) -> Iterator[None]:
    """Create a cache entry from the optimised model that a session writes.

    The ``with`` block must create the session with ``options``, in which this function sets the
    path to write the optimised model to.
    """
    entry.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(mkdtemp(prefix=".unfinished-", dir=entry.parent))
    options.optimized_model_filepath = str(temporary / MODEL)
    for key, value in _WEIGHTS_BESIDE.items():
        options.add_session_config_entry(key, value)
    try:
        yield
        _publish(temporary, entry)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _publish(temporary: Path, entry: Path) -> None:
    (temporary / _DIGEST).write_text(digest_files(_list_contents(temporary)), encoding="ascii")
    if find_model(entry) is None:
        shutil.rmtree(entry, ignore_errors=True)  # damaged
    with suppress(OSError):  # another process was faster, and wrote the same model
        temporary.rename(entry)
