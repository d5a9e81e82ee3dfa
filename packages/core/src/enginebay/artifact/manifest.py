"""``manifest.json``: the contents of an artifact, its origin, and the digest of every file."""

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
from enginebay.installation import install_command
from enginebay.params import SizeLimits
from enginebay.partition import Part
from enginebay.tensors import TensorSpec
from enginebay.verdict import Verdict, Verification
from enginebay.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

#: Increases if an older Enginebay could not read the manifest any more, but not for a new field.
MANIFEST_FORMAT: Final = 1

MANIFEST_NAME: Final = "manifest.json"

#: The names of temporary files for a new manifest; a killed writer leaves such a file.
MANIFEST_PART: Final = re.compile(r"\.manifest\.json\.[0-9a-f]{16}\.part")

_T = TypeVar("_T")


def _creation_time() -> str:
    # SOURCE_DATE_EPOCH makes builds reproducible: https://reproducible-builds.org/specs/
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        now = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    except (ValueError, OverflowError, OSError):
        message = f'SOURCE_DATE_EPOCH is "{epoch}": expected seconds since 1970'
        raise UsageError(message, hint="unset SOURCE_DATE_EPOCH") from None
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def _torch_version() -> str | None:
    # Not imported here: without an export, torch is not used and need not be installed.
    torch = sys.modules.get("torch")
    return None if torch is None else str(torch.__version__)


class FileEntry(msgspec.Struct, frozen=True):
    """One file of an artifact.

    Attributes:
        path: Path relative to the artifact, with ``/`` as separator.
        sha256: SHA-256 of the content as 64 hexadecimal digits.
        size: Size in bytes.
    """

    path: str
    sha256: str
    size: int


class PluginRecord(msgspec.Struct, frozen=True):
    """Name and version of the distribution whose plugin built the artifact."""

    distribution: str
    version: str


class IRRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The intermediate representation from which the engine's files were converted.

    Attributes:
        kind: ``onnx``, ``torchscript`` or ``exported_program``.
        exporter: The exporter that wrote the IR; ``file`` if the caller passed a file.
        opset: The version of ONNX's operator set; None for other kinds.
        sha256: SHA-256 of all files of the IR.
        notes: The exporters' notes, such as ``the default exporter failed: …``.
    """

    kind: str
    exporter: str = ""
    opset: int | None = None
    sha256: str = ""
    notes: tuple[str, ...] = ()


class Recipe(msgspec.Struct, frozen=True):
    """What an artifact was built from; a deployment with an equal recipe has nothing to do.

    Attributes:
        options: Option → its value, if it is not the default; arrays and modules by digests.
        versions: Distribution → version of the plugins and of the libraries that export.
        files: Path → SHA-256 of the local files that were read: code, weights, data, configs.
        structure: SHA-256 of the module as text; empty for a file that is no module.
    """

    options: dict[str, Any]
    versions: dict[str, str]
    files: dict[str, str]
    structure: str = ""


class ComparatorRecord(msgspec.Struct, frozen=True):
    """A comparator of outputs that are sets.

    Attributes:
        outputs: Names of the outputs that the comparator compares.
        comparator: The comparator as typed by the user, such as ``detections:0.5``.
    """

    outputs: tuple[str, ...]
    comparator: str


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record of a verification on one of the machines that the engine is built for.

    Attributes:
        host: The machine's host name.
        device: The device's model name or, if unknown, the engine's name for the device; empty if
            the engine crashed.
        engine_version: The version of the engine that ran.
        enginebay_version: The version of Enginebay that compared the outputs.
        time: Time of the run: UTC, ISO 8601.
        verification: The verdict with the error metrics of the outputs.
        receipt: The engine's receipt; None if the engine crashed.
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
        """The verdict of this verification run."""
        return self.verification.verdict

    def describe(self) -> str:
        """Describe the device, the verdict and the time in one line.

        Example:
            >>> RunRecord(host="lab", device="B 1", engine_version="2", time="2026-01-31T08:00:00Z",
            ...           verification=Verification(verdict="verified")).describe()
            'B 1, verified, 2026-01-31T08:00:00Z on lab'
        """
        return f"{self.device or 'its device'}, {self.verdict}, {self.time} on {self.host}"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents, the origin and the verdict of an artifact, as ``manifest.json`` stores them.

    By default, the versions, the platform and the time are those of this process.

    Attributes:
        format: The version of the manifest's format.
        backend: The backend's name.
        plugin: The distribution that provides the backend.
        engine_version: The engine's version.
        enginebay_version: The version of Enginebay.
        torch_version: The version of torch; None if torch was not used.
        python: The version of Python.
        platform: The operating system and the machine's architecture.
        created: Time of the build (UTC, ISO 8601), or the time in the environment variable
            ``SOURCE_DATE_EPOCH``.
        params: The backend's parameters.
        inputs: The model's inputs, by the names that callers use.
        outputs: The model's outputs, in order.
        sizes: Input name → axis → the smallest and the largest size that a call may have, of the
            axes that were deployed with a range; None for an unlimited size.
        model_files: The engine's files, as the backend listed them.
        parts: The parts of the model in the order in which they run; empty if it was not cut.
        data: The data set for calibration or, without calibration, for verification; None if no
            data set was used.
        kept: Nodes that an 8-bit engine runs in floating point, by their names in the engine.
        task: The model's task as plain data; None if unknown. :attr:`Artifact.task` reads it.
        comparators: The comparators of outputs that are sets; all other outputs are compared
            element by element.
        files: Every file of the artifact except the manifest.
        ir: The IR that the engine was built from; None if unknown.
        receipt: The engine's receipt during the verification; None if the engine did not run.
        verification: The verdict with the error metrics of the outputs.
        model: A name of the model that is valid in any current folder, such as
            ``/models/net.py:build`` or ``timm:resnet18``; empty for a Python object.
        weights: Origin of the weights: ``random (seed 0)``, ``pretrained``, or a file with its
            digest; empty if unknown.
        reference_sha256: SHA-256 of the weights of the model that is the reference, before any
            rewriting; of the file for an ONNX file. Empty if unknown.
        command: The command that builds the artifact again.
        recipe: What the artifact was built from; None if it was not deployed, or if no text
            describes an option.
        pinned: Versions and devices that a machine must have to load the artifact.
        built_for: The machines that the engine is built for; empty if it is built for the machine
            of the build, or for any machine.
        runs: The latest result of :func:`enginebay.verify` on each device, sorted by time; empty if
            ``built_for`` is empty. ``verification`` and ``receipt`` are copied from the worst run.
    """

    format: int = MANIFEST_FORMAT
    backend: str
    plugin: PluginRecord
    engine_version: str
    enginebay_version: str = __version__
    torch_version: str | None = msgspec.field(default_factory=_torch_version)
    python: str = msgspec.field(default_factory=platform.python_version)
    platform: str = msgspec.field(default_factory=platform.platform)
    created: str = msgspec.field(default_factory=_creation_time)
    params: dict[str, Any] = {}
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    sizes: SizeLimits = {}
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
    reference_sha256: str = ""
    command: str = ""
    recipe: Recipe | None = None
    pinned: dict[str, str] = {}
    built_for: str = ""
    runs: tuple[RunRecord, ...] = ()

    @property
    def requested_precision(self) -> str:
        """The precision in the parameters; empty if the backend has no such parameter."""
        return str(self.params.get("precision", ""))

    @property
    def as_made(self) -> Manifest:
        """The manifest without the fields that a later :func:`enginebay.verify` may change."""
        if not self.built_for:
            return self
        return msgspec.structs.replace(self, verification=None, receipt=None, runs=())


class _Header(msgspec.Struct):
    """The fields that identify an Enginebay manifest of any format version."""

    format: int
    enginebay_version: str


class _FileList(msgspec.Struct):
    """The field ``files``, which manifests of every format version contain."""

    files: tuple[FileEntry, ...]


class _MachineFields(_FileList):
    """Fields that a manifest file must contain, since their defaults describe this machine."""

    torch_version: str | None
    python: str
    platform: str
    created: str


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest as indented JSON; equal manifests have equal bytes.

    Raises:
        ArtifactError: A value cannot be written as JSON, such as NaN, infinity or a path object.
    """
    import json  # msgspec silently writes NaN as null

    try:
        plain = msgspec.to_builtins(manifest, order="deterministic")
        for name in (
            *("sizes", "parts", "data", "kept", "task", "comparators", "weights"),
            *("reference_sha256", "recipe", "built_for", "runs"),
        ):
            if not plain[name]:
                del plain[name]  # most artifacts have none of these
        text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)
        return f"{text}\n".encode()
    except (TypeError, ValueError) as error:
        message = f"the manifest cannot be written as JSON: {error}"
        raise ArtifactError(message, hint="check the backend's parameters") from error


def read_manifest(path: Path) -> Manifest:
    """Read a manifest file.

    Raises:
        ArtifactError: The file is not JSON or not a manifest, or a newer Enginebay has written it.
        OSError: The file cannot be read.
    """
    return decode_manifest(path.read_bytes(), path)


def decode_manifest(data: bytes, path: Path) -> Manifest:
    """Decode the content of a manifest file; see :func:`read_manifest`."""
    header = _decode_struct(data, _Header, path, "is not an Enginebay manifest")
    if header.format > MANIFEST_FORMAT:
        raise ArtifactError(
            f'"{path}" was made by Enginebay {header.enginebay_version} (manifest format '
            f"{header.format}, supported: {MANIFEST_FORMAT})",
            hint=install_command(f"enginebay>={header.enginebay_version}", "--upgrade"),
        )
    problem = f"does not fit manifest format {MANIFEST_FORMAT}"
    if header.format < 1:
        raise ArtifactError(f'"{path}" {problem}: unknown format {header.format}')
    # msgspec would fill in this machine's values for missing fields.
    _decode_struct(data, _MachineFields, path, problem)
    return _decode_struct(data, Manifest, path, problem)


def is_manifest(path: Path) -> bool:
    """Return True if a file is an Enginebay manifest of any format version."""
    if not path.is_file():  # a pipe would wait for its writer
        return False
    try:
        _decode_struct(path.read_bytes(), _Header, path, "")
    except (OSError, ArtifactError):
        return False
    return True


def listed_paths(path: Path) -> set[str]:
    """Return the paths of the files that a manifest, of any format version, lists.

    Raises:
        ArtifactError: The list cannot be decoded.
    """
    return {
        entry.path
        for entry in _decode_struct(path.read_bytes(), _FileList, path, "is damaged").files
    }


def _decode_struct(data: bytes, kind: type[_T], path: Path, problem: str) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is empty" if not data else str(error)
        raise ArtifactError(f'"{path}" {problem}: {reason}') from error
