"""Opening of an artifact, with all checks of its files before an engine reads them."""

from __future__ import annotations

import shlex
import warnings
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

import msgspec

from enginebay.artifact import manifest as manifests
from enginebay.artifact.consistent_reading import read_consistently
from enginebay.artifact.file_checks import REBUILD_HINT, check_file, check_paths, check_presence
from enginebay.artifact.manifest import MANIFEST_NAME, Manifest
from enginebay.errors import ArtifactError, UsageError, check_text, nearest
from enginebay.ir import IR_FOLDER, SUFFIXES
from enginebay.verdict import VerdictWarning, has_axis

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.hooks import Task
    from enginebay.tensors import Sample, TensorSpec
    from enginebay.verdict import Verdict, VerifiedRange

#: The file with the inputs and outputs that an artifact was verified with.
SAMPLES_FILE = "samples.npz"

_T = TypeVar("_T")


class Artifact(msgspec.Struct, frozen=True):
    """An artifact whose files were checked when the artifact was opened.

    Attributes:
        path: The artifact's directory, absolute and without symbolic links.
        manifest: The artifact's manifest.
    """

    path: Path
    manifest: Manifest

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self.manifest.backend

    @property
    def files(self) -> tuple[Path, ...]:
        """The engine's files relative to :attr:`path`, as the backend listed them."""
        return tuple(Path(name) for name in self.manifest.model_files)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs."""
        return self.manifest.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in order."""
        return self.manifest.outputs

    @property
    def verdict(self) -> Verdict:
        """The verdict in the manifest; ``unverified`` if the manifest has none."""
        verification = self.manifest.verification
        return "unverified" if verification is None else verification.verdict

    @property
    def verified_range(self) -> VerifiedRange | None:
        """The values and sizes of the inputs behind the verdict; None if nothing was compared."""
        verification = self.manifest.verification
        if verification is None or not verification.outputs or verification.basis is None:
            return None
        return verification.basis.range

    @property
    def task(self) -> Task | None:
        """The model's task; None if unknown.

        Raises:
            ArtifactError: The installed plugin cannot read the task in the manifest.
            MissingDependencyError: No installed plugin declares the task's kind.
        """
        from enginebay.tasks import read_task

        if self.manifest.task is None:
            return None
        try:
            task = read_task(self.manifest.task)
            return task.fit(self.inputs, self.outputs) if self.inputs and self.outputs else task
        except UsageError as error:
            raise ArtifactError(
                f'"{self.path / MANIFEST_NAME}" has a task that cannot be read: {error}',
                hint="deploy the model again, or install the package versions with which the "
                "artifact was built",
            ) from error

    @property
    def ir_file(self) -> Path | None:
        """The file of the IR that the engine was built from; None if the artifact has no IR."""
        for entry in self.manifest.files:
            file = PurePosixPath(entry.path)
            if file.parts[0] == IR_FOLDER and file.suffix in SUFFIXES.values():
                return self.path / file
        return None

    def modules(self) -> dict[str, str]:
        """Return node name → dotted path of the node's PyTorch module; empty if not recorded."""
        from enginebay.artifact.node_modules import read_modules

        return read_modules(self.path)

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest without the results of later runs of :func:`enginebay.verify`."""
        # A later verification does not make it another artifact.
        return sha256(manifests.encode_manifest(self.manifest.as_made)).hexdigest()

    def __repr__(self) -> str:
        return f"<Artifact of {self.backend}, {self.verdict}, in '{self.path}'>"

    def describe(self) -> str:
        """Describe the folder, the number of files and their total size in one line."""
        from enginebay.display import human_size, short_path

        files = self.manifest.files
        count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
        size = human_size(sum(file.size for file in files))
        return f"{short_path(self.path)} ({count}, {size})"

    def _repr_html_(self) -> str:
        from enginebay.display import html_fields

        manifest = self.manifest
        pairs = [
            ("folder", self.describe()),
            ("verdict", self.verdict),
            ("weights", manifest.weights),
            ("engine", f"{manifest.backend} {manifest.engine_version}"),
            *(("input", spec.describe()) for spec in self.inputs),
            *(("output", spec.describe()) for spec in self.outputs),
            ("made", manifest.created),
            ("command", manifest.command),
        ]
        return html_fields("Artifact", pairs)

    def samples(self) -> list[Sample]:
        """Return the inputs that the artifact was verified with, and the recorded outputs.

        Raises:
            ArtifactError: The samples cannot be read, or another artifact has replaced this one.
        """
        from enginebay.tensors import load_samples

        path = self.path / SAMPLES_FILE
        return use_artifact(self, lambda _: load_samples(path) if path.is_file() else [])

    def named_model(self) -> str:
        """Return the name of the artifact's model, for :func:`enginebay.deploy`.

        Raises:
            UsageError: The model was a Python object, or its file does not exist any more.
        """
        model = self.manifest.model
        if not model:
            raise UsageError(
                f"'{self.path}' does not record which model it was made from",
                hint="name the model: --model MODEL",
            )
        # Without options such as ?pretrained.
        before, colon, _ = model.partition("?")[0].rpartition(":")
        path = Path(before if colon and before.endswith(".py") else model)
        if path.is_absolute() and not path.exists():
            raise UsageError(
                f"'{self.path}' was made from '{model}', but '{path}' does not exist",
                hint="name the model: --model MODEL",
            )
        return model

    def warn(self) -> None:
        """Emit a :class:`~enginebay.VerdictWarning` if the artifact was published although wrong.

        Whatever runs an artifact calls this once, not at each call of the engine.
        """
        if self.verdict in ("mismatched", "crashed"):
            text = (
                f"the recorded verdict of '{self.path}' is {self.verdict}, so its outputs are not "
                f"the model's: enginebay inspect {shlex.quote(str(self.path))}"
            )
            warnings.warn(text, VerdictWarning, stacklevel=3)

    def check_current(self) -> None:
        """Check that no other artifact has replaced this artifact at its path.

        Raises:
            ArtifactError: The artifact was replaced, or its manifest cannot be read.
        """
        where = self.path / MANIFEST_NAME
        try:
            current = manifests.read_manifest(where)
        except OSError as error:
            raise ArtifactError(f'"{where}" cannot be read: {error.strerror}') from error
        if current.as_made != self.manifest.as_made:
            raise ArtifactError(
                f'"{self.path}" was replaced by another artifact after it was opened',
                hint="open the artifact again",
            )


def open_artifact(artifact: str | Path | Artifact) -> Artifact:
    """Open an artifact, and check the size and the SHA-256 of every listed file.

    The digests detect accidental changes. They do not protect against an attacker, who can change
    the manifest too.

    Args:
        artifact: The artifact's directory. An open artifact is returned as it is.

    Raises:
        ArtifactError: The directory is not an artifact, or a file or a field of the manifest is
            wrong; the message names the file or the field.
        UsageError: The path cannot be encoded in this locale.
    """
    if isinstance(artifact, Artifact):
        return artifact
    return use_artifact(artifact, lambda opened: opened)


def use_artifact(artifact: str | Path | Artifact, use: Callable[[Artifact], _T]) -> _T:
    """Read an artifact's files consistently, even if another process replaces the artifact.

    Args:
        artifact: The artifact's directory, or an open artifact.
        use: A function that reads the open artifact. If ``artifact`` is a directory and was
            replaced during the call, the function is called again with the new artifact.

    Returns:
        The result of ``use``.

    Raises:
        ArtifactError: As for :func:`open_artifact`; or ``artifact`` is open and was replaced.
    """
    if not isinstance(artifact, Artifact):
        path = Path(artifact)
        return read_consistently(path, lambda: use(_open_checked(path)))

    def read_current() -> _T:
        artifact.check_current()
        return use(artifact)

    return read_consistently(artifact.path, read_current)


def _open_checked(path: Path) -> Artifact:
    try:
        return _open_directory(path)
    except OSError as error:
        name = error.filename or path
        raise ArtifactError(f'"{name}" cannot be read: {error.strerror}') from error


def _open_directory(path: Path) -> Artifact:
    if not path.is_dir():
        state = "is not a directory" if path.exists() else "does not exist"
        message = f'"{path}" {state}: expected the directory of an artifact'
        raise ArtifactError(message, hint=_suggest_artifact(path))
    where = path / MANIFEST_NAME
    if not where.is_file():
        message = f'"{path}" is not an artifact: it contains no {MANIFEST_NAME}'
        raise ArtifactError(message, hint=_suggest_artifact(path))
    manifest = manifests.read_manifest(where)
    check_paths(manifest.files, where)
    _check_model_files(manifest, where)
    _check_ranges(manifest, where)
    root = path.resolve()
    # A path that is not UTF-8 cannot be passed to a child process.
    check_text(str(root))
    for entry in manifest.files:
        check_presence(root, entry)  # before the digests, which take much longer
    for entry in manifest.files:
        check_file(root, entry)
    return Artifact(root, manifest)


def _suggest_artifact(path: Path) -> str | None:
    """Return a hint with the artifacts around a path, in it or beside it; None without any."""
    from glob import escape

    from enginebay.display import join_names  # not at the top: opening an artifact needs neither

    def below(folder: Path, name: str = "*") -> list[Path]:
        found = sorted(folder.glob(f"{name}/{MANIFEST_NAME}"))
        return [where.parent for where in found if manifests.is_manifest(where)]

    around = [each for each in path.parents[:2] if manifests.is_manifest(each / MANIFEST_NAME)]
    meant = around[:1] or below(path)
    if not meant and path.suffix in SUFFIXES.values() and path.exists():
        return f"deploy the model first: enginebay deploy {path}"
    if not meant and path.name:
        beside = below(path.parent)
        deeper = below(path.parent, f"*/{escape(path.name)}")
        others = (*beside, *deeper, *below(path.parent.parent))
        guess = nearest(path.name, [each.name for each in others])
        # One folder has several names: "../here/model" and "model".
        meant = [*{each.resolve(): each for each in others if each.name == guess}.values()]
        if not meant and beside:
            return f"artifacts beside it: {join_names([each.name for each in beside])}"
    shown = " or ".join(f"'{each}'" for each in meant[:3])
    return f"did you mean {shown}?" if shown else None


def _check_model_files(manifest: Manifest, where: Path) -> None:
    listed = {entry.path for entry in manifest.files}
    names = (*manifest.model_files, *(path for part in manifest.parts for path in part.paths))
    # Without this check, loading would fail with an IndexError.
    if not names:
        message = f'"{where}" lists no model file: expected the engine\'s files'
        raise ArtifactError(message, hint=REBUILD_HINT)
    for name in names:
        if name not in listed:
            raise ArtifactError(f'"{where}" lists the model file "{name}" without a digest')


def _check_ranges(manifest: Manifest, where: Path) -> None:
    """Raise ArtifactError if a range was edited by hand into one that nothing can have measured."""
    verdicts = {"verification": manifest.verification} | {
        f"runs[{number}].verification": run.verification for number, run in enumerate(manifest.runs)
    }
    ranks = {spec.name: None if spec.dims is None else len(spec.dims) for spec in manifest.inputs}
    faults = [
        (f"sizes.{name}.{axis}", f"expected 0 <= low <= high of an axis, found {low} and {high}")
        for name, axes in manifest.sizes.items()
        for axis, (low, high) in axes.items()
        if not (0 <= low <= (low if high is None else high) and has_axis(ranks, name, axis))
    ]
    for place, verification in verdicts.items():
        if verification and verification.basis and (known := verification.basis.range):
            faults += [(f"{place}.basis.range.{k}", fault) for k, fault in known.find_faults(ranks)]
    for key, fault in faults:
        raise ArtifactError(f'"{where}": {key}: {fault}', hint=REBUILD_HINT)


def check_pinned(manifest: Manifest, found: Mapping[str, str], *, hint: str = "") -> None:
    """Check that this machine has the versions and devices that an artifact is bound to.

    Args:
        manifest: The artifact's manifest.
        found: The versions and devices of this machine, as ``Backend.bound_to`` returns them.
        hint: The hint of the error; by default the command that built the artifact.

    Raises:
        ArtifactError: A version or a device differs; the message has both values.

    Example:
        >>> from enginebay.artifact import PluginRecord
        >>> made = Manifest(backend="b", plugin=PluginRecord("p", "1"), engine_version="10.1",
        ...                 model_files=(), pinned={"engine_version": "10.1"})
        >>> check_pinned(made, {"engine_version": "10.1"})
    """
    for field, expected in manifest.pinned.items():
        if found.get(field) != expected:
            here = f'"{found[field]}"' if field in found else "none"
            raise ArtifactError(
                f'the artifact runs only with {field} "{expected}", found {here}',
                hint=hint or manifest.command or "deploy the model again here",
            )
