"""The artifacts of an evaluation, and the inputs, outputs and task that they share."""

from __future__ import annotations

from hashlib import blake2b
from os import PathLike
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from enginebay import Artifact
from enginebay.authors.artifacts import LoadRequest, load_request, use_artifact
from enginebay.commands import describe_precision
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from enginebay import TensorSpec
    from enginebay.hooks import Task

    Dims = tuple[int | str, ...]


class EvaluationSubject(NamedTuple):
    """An artifact to evaluate.

    Attributes:
        name: The artifact's folder, as the caller wrote it.
        request: The engine's files and load options.
        identity: A digest of the artifact's manifest, and thereby of all files of the artifact.
        artifact: The opened artifact.
    """

    name: str
    request: LoadRequest
    identity: str
    artifact: Artifact

    @property
    def precision(self) -> str:
        """The precision of the artifact, as tables show it."""
        manifest = self.artifact.manifest
        computed = manifest.receipt.precision if manifest.receipt else ""
        return describe_precision(manifest.requested_precision, computed)


def open_subjects(
    artifacts: str | Path | Artifact | Sequence[str | Path | Artifact],
) -> list[EvaluationSubject]:
    """Open artifacts, and return the subject (an artifact to evaluate) for each.

    Raises:
        UsageError: The sequence is empty, or contains an artifact twice.
        ArtifactError: An artifact is damaged, or bound to a different engine or device.
        BackendUnavailableError: An artifact's backend cannot be used here.
    """
    listed = [artifacts] if isinstance(artifacts, str | PathLike | Artifact) else list(artifacts)
    if not listed:
        raise UsageError("no artifact to evaluate", hint="name the folder of an artifact")
    subjects: dict[str, EvaluationSubject] = {}
    for artifact in listed:
        subject = use_artifact(artifact, lambda opened, named=artifact: _subject_of(named, opened))  # type: ignore[misc]  # mypy cannot infer a default's type
        if subject.name in subjects:
            raise UsageError(
                f"artifact '{subject.name}' was passed twice", hint="remove one of them"
            )
        subjects[subject.name] = subject
    return list(subjects.values())


def _subject_of(named: str | Path | Artifact, opened: Artifact) -> EvaluationSubject:
    name = str(named.path if isinstance(named, Artifact) else named)
    # Without later verifications, such as on the machine that the engine was built for.
    identity = blake2b(msgspec.json.encode(opened.manifest.as_made), digest_size=16).hexdigest()
    return EvaluationSubject(name, load_request(opened), identity, opened)


def common_task(subjects: Sequence[EvaluationSubject]) -> Task | None:
    """Return the task (preprocessing of items) of the artifacts; None if no artifact has a task.

    Raises:
        UsageError: Two artifacts have tasks that prepare inputs or targets differently.
        ArtifactError: The task of an artifact cannot be read.
    """
    tasks = {subject.name: task for subject in subjects if (task := subject.artifact.task)}
    if not tasks:
        return None
    first, task = next(iter(tasks.items()))
    for name, other in tasks.items():
        if other.preparation() != task.preparation():
            raise UsageError(
                f"the tasks of '{first}' and '{name}' prepare inputs or targets differently",
                hint="evaluate the artifacts one by one",
            )
    return task


def common_specs(
    subjects: Sequence[EvaluationSubject], kind: Literal["inputs", "outputs"]
) -> tuple[TensorSpec, ...]:
    """Return the specs (names, dtypes, dims) of the inputs or outputs of all artifacts.

    A dimension that differs between the artifacts is dynamic; but the first, the batch size, is the
    fixed one. In a spec, ``dims`` is None if the ranks differ.

    Raises:
        UsageError: The names or dtypes of two artifacts differ.
    """
    first, *others = subjects
    specs: tuple[TensorSpec, ...] = getattr(first.request, kind)
    for other in others:
        others_specs: tuple[TensorSpec, ...] = getattr(other.request, kind)
        if {(s.name, s.dtype) for s in others_specs} != {(s.name, s.dtype) for s in specs}:
            raise UsageError(
                f"'{first.name}' and '{other.name}' have different {kind}: "
                f"{_list_specs(specs)}, and {_list_specs(others_specs)}",
                hint="evaluate the artifacts one by one",
            )
        dims = {spec.name: spec.dims for spec in others_specs}
        specs = tuple(
            msgspec.structs.replace(s, dims=_common_dims(s.name, s.dims, dims[s.name]))
            for s in specs
        )
    return specs


def _common_dims(name: str, dims: Dims | None, other: Dims | None) -> Dims | None:
    if dims is None or other is None or len(dims) != len(other):
        return None
    common = [
        size if size == size2 else f"{name}_{axis}"
        for axis, (size, size2) in enumerate(zip(dims, other, strict=True))
    ]
    # Items of the fixed batch size fit both.
    fixed = [size for size in (dims[:1] + other[:1]) if isinstance(size, int)]
    return (*fixed, *common[1:]) if len(fixed) == 1 else tuple(common)


def _list_specs(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f"{spec.name} {spec.dtype}" for spec in specs)
