"""Optimised models, kept on disk so that later loads skip the optimisation.

::

    FOLDER/KEY/model.onnx        the optimised model
               model.onnx.data   its weights
               sha256            the digest of the others

An entry appears complete or not at all: it is written beside its place and renamed.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MODEL = "model.onnx"
_DIGEST = "sha256"
#: The session configuration entries that put the weights beside the optimised model. Always: a
#: protobuf file ends at 2 GB, and without them the optimised model still names the original's
#: external data, which lies elsewhere. Small ones stay in the file, since shape inference reads
#: axes and shapes before other files are loaded.
_WEIGHTS_BESIDE = {
    "session.optimized_model_external_initializers_file_name": f"{MODEL}.data",
    "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
}


def entry(folder: str, files: Iterable[Path], facts: object) -> Path:
    """Return the place of the model optimised from ``files`` under the settings ``facts``."""
    digest = hashlib.sha256(f"{facts!r} {processor()}".encode())
    digest.update(digest_of(files).encode())
    return Path(folder) / digest.hexdigest()


def processor() -> str:
    """Describe the processor, whose features decide the layouts of an optimised model."""
    import platform

    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return f"{platform.machine()} {platform.processor()}"


def digest_of(files: Iterable[Path]) -> str:
    """Return the SHA-256 of the files' digests, in hex."""
    whole = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def find(place: Path) -> Path | None:
    """Return the optimised model; None where there is none or it was changed since."""
    with suppress(OSError):
        if (place / _DIGEST).read_text(encoding="ascii") == digest_of(_contents(place)):
            return place / MODEL
    return None


def _contents(place: Path) -> list[Path]:
    return sorted(path for path in place.iterdir() if path.name != _DIGEST)


@contextmanager
def writing(place: Path, options: Any) -> Iterator[None]:
    """Make the session that is created in the ``with`` block write its model to ``place``."""
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(mkdtemp(prefix=".unfinished-", dir=place.parent))
    options.optimized_model_filepath = str(unfinished / MODEL)
    for key, value in _WEIGHTS_BESIDE.items():
        options.add_session_config_entry(key, value)
    try:
        yield
        _publish(unfinished, place)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _publish(unfinished: Path, place: Path) -> None:
    (unfinished / _DIGEST).write_text(digest_of(_contents(unfinished)), encoding="ascii")
    if find(place) is None:
        shutil.rmtree(place, ignore_errors=True)  # damaged
    with suppress(OSError):  # another process was faster, and its model is as good
        unfinished.rename(place)
