"""``manifest.json``: what an artifact is, where it comes from, and the digest of every file."""

from __future__ import annotations

import os
import platform
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from enginebay.data import DataRecord
from enginebay.errors import ArtifactError, UsageError
from enginebay.inference import Receipt
from enginebay.tensors import TensorSpec
from enginebay.verdict import Verdict, Verification
from enginebay.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

#: Grows when an older Enginebay could no longer read the manifest; a new field does not grow it.
MANIFEST_FORMAT: Final = 1

MANIFEST_NAME: Final = "manifest.json"

#: The names of a manifest that is being written in place of another; a killed writer leaves one.
MANIFEST_PART: Final = re.compile(r"\.manifest\.json\.[0-9a-f]{16}\.part")

_T = TypeVar("_T")


def _created() -> str:
    """Now in UTC, or ``SOURCE_DATE_EPOCH`` where a build is to be reproduced byte for byte."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        now = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    except (ValueError, OverflowError, OSError):
        message = f'SOURCE_DATE_EPOCH is "{epoch}"; wanted seconds since 1970'
        raise UsageError(message, hint="unset SOURCE_DATE_EPOCH") from None
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def _torch_version() -> str | None:
    """The version of the torch that this process used, None where it used none."""
    torch = sys.modules.get("torch")
    return None if torch is None else str(torch.__version__)


class FileEntry(msgspec.Struct, frozen=True):
    """One file of an artifact.

    Attributes:
        path: Relative to the artifact, with ``/`` between the parts.
        sha256: Of its content, 64 hexadecimal digits.
        size: In bytes.
    """

    path: str
    sha256: str
    size: int


class PluginRecord(msgspec.Struct, frozen=True):
    """The distribution whose plugin made the artifact."""

    distribution: str
    version: str


class IRRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The intermediate representation that the engine's files were made from.

    Attributes:
        kind: ``onnx``, ``torchscript`` or ``exported_program``.
        exporter: The exporter that wrote it; empty where it was given as a file.
        opset: The ONNX opset; None for other kinds.
        sha256: Of its main file.
        notes: What happened on the way: ``the default exporter failed: …``.
    """

    kind: str
    exporter: str = ""
    opset: int | None = None
    sha256: str = ""
    notes: tuple[str, ...] = ()


class ComparatorRecord(msgspec.Struct, frozen=True):
    """What compares some outputs that are sets.

    Attributes:
        outputs: Their names.
        comparator: What the user typed: ``detections:0.5``.
    """

    outputs: tuple[str, ...]
    comparator: str


class Part(msgspec.Struct, frozen=True):
    """One engine of several that run one after the other.

    Attributes:
        folder: Where its files are, relative to the artifact.
        files: Their names relative to the folder, as the backend listed them.
        inputs: What it takes of the model's inputs and of earlier parts' outputs.
        outputs: What it gives to later parts and to the caller.
    """

    folder: str
    files: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The files relative to the artifact."""
        return tuple(f"{self.folder}/{file}" for file in self.files)


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One of the machines that an engine is built for, on which its outputs were compared.

    Attributes:
        host: The machine's name.
        device: The device's own name, or what the engine calls it; empty where it crashed.
        engine_version: The version of the engine that ran.
        enginebay_version: Here.
        time: When it ran: UTC, ISO 8601.
        verification: The verdict with its figures.
        receipt: What the engine says that it ran; None where it crashed.
    """

    host: str
    device: str
    engine_version: str
    enginebay_version: str = __version__
    time: str
    verification: Verification
    receipt: Receipt | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict of this run."""
        return self.verification.verdict

    def describe(self) -> str:
        """One line: the device, the verdict and the time.

        Example:
            >>> RunRecord(host="lab", device="B 1", engine_version="2", time="2026-01-31T08:00:00Z",
            ...           verification=Verification(verdict="verified")).describe()
            'B 1, verified, 2026-01-31T08:00:00Z on lab'
        """
        return f"{self.device or 'its device'}, {self.verdict}, {self.time} on {self.host}"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an artifact says about itself.

    Fields with "here" as their default say where and when the manifest was made; a manifest that
    is read must bring them along.

    Attributes:
        format: The format's number; see :data:`MANIFEST_FORMAT`.
        backend: The backend's name.
        plugin: The distribution that provides the backend.
        engine_version: The engine's version.
        enginebay_version: Here.
        torch_version: Here; None where no torch was used.
        python: Here: the interpreter's version.
        platform: Here: operating system and machine.
        created: Here: UTC, ISO 8601; ``SOURCE_DATE_EPOCH`` is honoured.
        params: The backend's parameters.
        inputs: The model's inputs, by the names that callers use.
        outputs: The model's outputs, in order.
        model_files: The engine's files, as the backend listed them.
        parts: The engines in the order in which they run; empty where there is only one.
        data: What it was calibrated with, or verified on besides its example; None for none.
        kept: Nodes that an 8-bit engine has in floating point, by its own names for them.
        task: What the model is for, as plain data; None where nobody said. :attr:`Artifact.task`
            reads it.
        comparators: What compares outputs that are sets; the others are compared place by place.
        files: Every file of the artifact but the manifest.
        ir: What the engine's files were made from; None where they were given as files.
        receipt: What ran when the artifact was verified.
        verification: The verdict with its figures.
        model: What leads to the model from any folder, ``/models/net.py:build`` or
            ``timm:resnet18``; empty where it was a Python object.
        weights: Where the model's weights come from, ``random (seed 0)``, ``pretrained`` or a file
            with its digest; empty where nobody said.
        command: What to type to make the artifact again.
        pinned: Fields that must have these values where the artifact is loaded.
        built_for: The machines that the engine is built for; empty where that is the one that it
            was built on, or any.
        runs: Of such an engine, what :func:`enginebay.verify` found on these machines, the latest
            last, one record for each device; ``verification`` and ``receipt`` are those of the
            worst of them.
    """

    format: int = MANIFEST_FORMAT
    backend: str
    plugin: PluginRecord
    engine_version: str
    enginebay_version: str = __version__
    torch_version: str | None = msgspec.field(default_factory=_torch_version)
    python: str = msgspec.field(default_factory=platform.python_version)
    platform: str = msgspec.field(default_factory=platform.platform)
    created: str = msgspec.field(default_factory=_created)
    params: dict[str, Any] = {}
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    model_files: tuple[str, ...]
    parts: tuple[Part, ...] = ()
    data: DataRecord | None = None
    kept: tuple[str, ...] = ()
    task: dict[str, Any] | None = None
    comparators: tuple[ComparatorRecord, ...] = ()
    files: tuple[FileEntry, ...] = ()
    ir: IRRecord | None = None
    receipt: Receipt | None = None
    verification: Verification | None = None
    model: str = ""
    weights: str = ""
    command: str = ""
    pinned: dict[str, str] = {}
    built_for: str = ""
    runs: tuple[RunRecord, ...] = ()

    @property
    def as_made(self) -> Manifest:
        """The same without what :func:`enginebay.verify` writes into it later."""
        if not self.built_for:
            return self
        return msgspec.structs.replace(self, verification=None, receipt=None, runs=())


class _Header(msgspec.Struct):
    """The fields by which an Enginebay manifest of any format is recognised."""

    format: int
    enginebay_version: str


class _Listed(msgspec.Struct):
    """The part of a manifest that says which files are the artifact's."""

    files: tuple[FileEntry, ...]


class _Here(_Listed):
    """The fields whose defaults describe this machine, and so must not be filled in by reading."""

    torch_version: str | None
    python: str
    platform: str
    created: str


def encode(manifest: Manifest) -> bytes:
    """The manifest as indented JSON, the same bytes for the same manifest.

    Raises:
        ArtifactError: It holds something that JSON cannot carry: NaN, infinity, a path object.
    """
    import json  # msgspec writes NaN as null without a word

    try:
        plain = msgspec.to_builtins(manifest, order="deterministic")
        for name in (
            *("parts", "data", "kept", "task", "comparators", "weights", "built_for", "runs"),
        ):
            if not plain[name]:
                del plain[name]  # a model in one piece has a manifest without a word of pieces
        text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)
        return f"{text}\n".encode()
    except (TypeError, ValueError) as error:
        message = f"the manifest cannot be written as JSON: {error}"
        raise ArtifactError(message, hint="look at the backend's parameters") from error


def read(path: Path) -> Manifest:
    """The manifest in a file.

    Raises:
        ArtifactError: It is not JSON, not a manifest, or from a newer Enginebay.
        OSError: It cannot be read.
    """
    return decode(path.read_bytes(), path)


def decode(data: bytes, path: Path) -> Manifest:
    """The manifest in some bytes that came, or will come, from ``path``; see :func:`read`."""
    header = _decode(data, _Header, path, "is not an Enginebay manifest")
    if header.format > MANIFEST_FORMAT:
        raise ArtifactError(
            f'"{path}" was made by a newer Enginebay (format {header.format};'
            f" this one reads {MANIFEST_FORMAT})",
            hint=f'pip install --upgrade "enginebay>={header.enginebay_version}"',
        )
    problem = f"does not fit manifest format {MANIFEST_FORMAT}"
    if header.format < 1:
        raise ArtifactError(f'"{path}" {problem}: there is no format {header.format}')
    _decode(data, _Here, path, problem)
    return _decode(data, Manifest, path, problem)


def is_manifest(path: Path) -> bool:
    """True where a file is an Enginebay manifest, of whatever format."""
    try:
        _decode(path.read_bytes(), _Header, path, "")
    except (OSError, ArtifactError):
        return False
    return True


def listed_paths(path: Path) -> set[str]:
    """The files that a manifest, of whatever format, lists.

    Raises:
        ArtifactError: It lists none in a way that can be understood.
    """
    return {entry.path for entry in _decode(path.read_bytes(), _Listed, path, "is damaged").files}


def _decode(data: bytes, kind: type[_T], path: Path, problem: str) -> _T:
    """JSON as a Struct, or the one line that says what is wrong with it."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is empty" if not data else str(error)
        raise ArtifactError(f'"{path}" {problem}: {reason}') from error
