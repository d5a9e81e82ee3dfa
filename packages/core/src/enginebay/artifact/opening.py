"""Opening an artifact: every check there is, before any engine reads a byte of it."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

import msgspec

from enginebay.artifact import manifest as manifests
from enginebay.artifact.file_checks import HINT, check_file, check_paths, check_presence
from enginebay.artifact.manifest import MANIFEST_NAME, Manifest
from enginebay.artifact.replacement import read_whole
from enginebay.display import human_size, short_path
from enginebay.errors import ArtifactError, UsageError, check_text, nearest
from enginebay.ir import IR_FOLDER, SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.hooks import Task
    from enginebay.tensors import Sample, TensorSpec
    from enginebay.verdict import Verdict

#: Where an artifact keeps the inputs and outputs that it was verified with.
SAMPLES_FILE = "samples.npz"

_T = TypeVar("_T")


class Artifact(msgspec.Struct, frozen=True):
    """A checked artifact.

    Attributes:
        path: The directory, absolute and without symbolic links.
        manifest: What it says about itself.
    """

    path: Path
    manifest: Manifest

    @property
    def backend(self) -> str:
        """The name of the backend that made it."""
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
        """The verdict it carries; ``unverified`` where it carries none."""
        verification = self.manifest.verification
        return "unverified" if verification is None else verification.verdict

    @property
    def task(self) -> Task | None:
        """What the model is for; None where nobody said.

        Raises:
            ArtifactError: It is written in a way that the installed plugin does not read.
            MissingDependencyError: No installed plugin declares its kind.
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
                hint="deploy the model again, or use packages as new as those that made it",
            ) from error

    @property
    def ir_file(self) -> Path | None:
        """The IR that its engine was built from; None where it keeps none."""
        for entry in self.manifest.files:
            file = PurePosixPath(entry.path)
            if file.parts[0] == IR_FOLDER and file.suffix in SUFFIXES.values():
                return self.path / file
        return None

    def modules(self) -> dict[str, str]:
        """The path of the module that each node comes from, by its name; empty if unknown."""
        from enginebay.artifact.node_modules import read_modules

        return read_modules(self.path)

    @property
    def digest(self) -> str:
        """The sha256 of its manifest as it was made, which has the digest of every file."""
        return sha256(manifests.encode(self.manifest.as_made)).hexdigest()

    def __repr__(self) -> str:
        return f"<Artifact of {self.backend}, {self.verdict}, in '{self.path}'>"

    def describe(self) -> str:
        """The folder, the number of files in it, and their size together."""
        files = self.manifest.files
        count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
        return f"{short_path(self.path)} ({count}, {human_size(sum(f.size for f in files))})"

    def _repr_html_(self) -> str:
        """What it is and what it holds, for notebooks."""
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
        """The inputs that it was verified with, and the reference's outputs; maybe none.

        Raises:
            ArtifactError: They cannot be read, or another artifact has replaced this one.
        """
        from enginebay.tensors import load_samples

        path = self.path / SAMPLES_FILE
        return use_artifact(self, lambda _: load_samples(path) if path.is_file() else [])

    def named_model(self) -> str:
        """The model that it was made from, as :func:`enginebay.deploy` takes it.

        Raises:
            UsageError: It was a Python object, or its file is not there.
        """
        named = self.manifest.model
        if not named:
            raise UsageError(
                f"'{self.path}' does not say which model it was made from",
                hint="name it: --model MODEL",
            )
        before, colon, _ = named.partition("?")[0].rpartition(":")
        path = Path(before if colon and before.endswith(".py") else named)
        if path.is_absolute() and not path.exists():
            raise UsageError(
                f"'{self.path}' was made from '{named}', and there is no '{path}'",
                hint="name the model: --model MODEL",
            )
        return named

    def check_current(self) -> None:
        """Refuse to go on where another artifact has taken the place of this one.

        Raises:
            ArtifactError: It has, or the manifest is gone.
        """
        where = self.path / MANIFEST_NAME
        try:
            current = manifests.read(where)
        except OSError as error:
            raise ArtifactError(f'"{where}" cannot be read: {error.strerror}') from error
        if current.as_made != self.manifest.as_made:
            raise ArtifactError(
                f'"{self.path}" was replaced by another artifact after it was opened',
                hint="open it again",
            )


def open_artifact(artifact: str | Path | Artifact) -> Artifact:
    """Read an artifact and check it whole.

    Files that the manifest does not list are left alone: whatever a listed file refers to was
    listed when the artifact was published, so no engine reads them. Digests guard against
    accidents, not against somebody who can rewrite the manifest as well.

    Args:
        artifact: The directory. An artifact that is already open is returned as it is.

    Returns:
        The artifact, each of its files as long and of the same sha256 as when it was made.

    Raises:
        ArtifactError: Names the file or field that differs, what was wanted and what was found.
        UsageError: Its path is not text in this locale.
    """
    if isinstance(artifact, Artifact):
        return artifact
    return use_artifact(artifact, lambda opened: opened)


def use_artifact(artifact: str | Path | Artifact, use: Callable[[Artifact], _T]) -> _T:
    """Read an artifact's files, all of them of one artifact, though others may replace it.

    Args:
        artifact: The directory, or an open artifact.
        use: Called with the open artifact; again with the next one if it is replaced meanwhile.

    Returns:
        The result of ``use``.

    Raises:
        ArtifactError: As :func:`open_artifact`; or an artifact that was open is replaced.
    """
    if not isinstance(artifact, Artifact):
        path = Path(artifact)
        return read_whole(path, lambda: use(_checked(path)))

    def read() -> _T:
        artifact.check_current()
        return use(artifact)

    return read_whole(artifact.path, read)


def _checked(path: Path) -> Artifact:
    """The artifact at a path, or one line that says why it cannot be read."""
    try:
        return _open(path)
    except OSError as error:
        name = error.filename or path
        raise ArtifactError(f'"{name}" cannot be read: {error.strerror}') from error


def _open(path: Path) -> Artifact:
    """:func:`_checked` with the system's errors as they come."""
    if not path.is_dir():
        state = "is not a directory" if path.exists() else "does not exist"
        message = f'"{path}" {state}; wanted the directory of an artifact'
        raise ArtifactError(message, hint=_neighbour(path))
    where = path / MANIFEST_NAME
    if not where.is_file():
        raise ArtifactError(f'"{path}" is not an artifact: it holds no {MANIFEST_NAME}')
    manifest = manifests.read(where)
    check_paths(manifest.files, where)
    _check_model_files(manifest, where)
    root = path.resolve()
    check_text(str(root))
    for entry in manifest.files:
        check_presence(root, entry)  # all of these first: they cost nothing, a digest does
    for entry in manifest.files:
        check_file(root, entry)
    return Artifact(root, manifest)


def _neighbour(path: Path) -> str | None:
    """Suggest the artifact beside a path that its name is most like."""
    beside = [found.parent.name for found in path.parent.glob(f"*/{MANIFEST_NAME}")]
    guess = nearest(path.name, beside)
    return f"did you mean '{path.with_name(guess)}'?" if guess and path.name else None


def _check_model_files(manifest: Manifest, where: Path) -> None:
    """The engine's files must be among those that have a digest."""
    listed = {entry.path for entry in manifest.files}
    names = (*manifest.model_files, *(path for part in manifest.parts for path in part.paths))
    if not names:
        raise ArtifactError(f'"{where}" lists no model file; wanted the engine\'s', hint=HINT)
    for name in names:
        if name not in listed:
            raise ArtifactError(f'"{where}" has the model file "{name}" without its digest')


def check_pinned(manifest: Manifest, found: Mapping[str, str], *, hint: str = "") -> None:
    """Refuse an artifact that is bound to something which is different here.

    Args:
        manifest: The artifact's.
        found: The same fields, as they are where it is to be loaded.
        hint: What to type instead; by default the command that made the artifact.

    Raises:
        ArtifactError: Names the field, what was wanted and what was found.

    Example:
        >>> from enginebay.artifact import PluginRecord
        >>> made = Manifest(backend="b", plugin=PluginRecord("p", "1"), engine_version="10.1",
        ...                 model_files=(), pinned={"engine_version": "10.1"})
        >>> check_pinned(made, {"engine_version": "10.1"})
    """
    for field, wanted in manifest.pinned.items():
        if found.get(field) != wanted:
            here = f'"{found[field]}"' if field in found else "none"
            raise ArtifactError(
                f'the artifact is bound to {field} "{wanted}", found {here}',
                hint=hint or manifest.command or "deploy the model again here",
            )
