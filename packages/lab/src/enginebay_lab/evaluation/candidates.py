"""The artifacts of an evaluation, and what they have in common."""

from __future__ import annotations

from hashlib import blake2b
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from enginebay import Artifact
from enginebay.authors import LoadRequest, load_request, use_artifact
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from enginebay import TensorSpec
    from enginebay.hooks import Task


class Candidate(NamedTuple):
    """An artifact that is to be evaluated.

    Attributes:
        name: The folder as it was named.
        request: The engine's files and what they are loaded with.
        identity: A digest of its manifest, which has the digest of every file.
        artifact: What was opened; None for an engine that is no artifact yet.
    """

    name: str
    request: LoadRequest
    identity: str
    artifact: Artifact | None = None


def find_candidates(
    artifacts: str | Path | Artifact | Sequence[str | Path | Artifact],
) -> list[Candidate]:
    """Open the artifacts that are meant.

    Raises:
        UsageError: There is none, or one is named twice.
        ArtifactError: One is damaged, or bound to another engine or device.
        BackendUnavailableError: The backend of one cannot be used here.
    """
    listed = [artifacts] if isinstance(artifacts, str | PathLike | Artifact) else list(artifacts)
    if not listed:
        raise UsageError("there is no artifact to evaluate", hint="name its folder")
    found: dict[str, Candidate] = {}
    for artifact in listed:
        candidate = use_artifact(artifact, lambda opened, given=artifact: _candidate(given, opened))  # type: ignore[misc]  # mypy cannot infer a default's type
        if candidate.name in found:
            raise UsageError(f"'{candidate.name}' is named twice", hint="leave one of them out")
        found[candidate.name] = candidate
    return list(found.values())


def _candidate(given: str | Path | Artifact, opened: Artifact) -> Candidate:
    name = str(given.path if isinstance(given, Artifact) else given)
    identity = blake2b(msgspec.json.encode(opened.manifest.as_made), digest_size=16).hexdigest()
    return Candidate(name, load_request(opened), identity, opened)


def common_task(candidates: Sequence[Candidate]) -> Task | None:
    """The task by which all artifacts make the same inputs of items; None where none has one.

    Raises:
        UsageError: They make different ones.
        ArtifactError: The task of one cannot be read.
    """
    opened = [(each.name, each.artifact) for each in candidates if each.artifact is not None]
    tasks = {name: task for name, artifact in opened if (task := artifact.task)}
    if not tasks:
        return None
    first, task = next(iter(tasks.items()))
    for name, other in tasks.items():
        if other.preparation() != task.preparation():
            raise UsageError(
                f"'{first}' and '{name}' make different inputs or targets of an item, by their "
                "tasks",
                hint="evaluate them one after the other",
            )
    return task


def common_specs(candidates: Sequence[Candidate], verb: str, part: Any) -> tuple[TensorSpec, ...]:
    """The inputs, or the outputs, that all artifacts have; sizes that differ are open.

    Raises:
        UsageError: Their names or dtypes differ.
    """
    first, *others = candidates
    specs: tuple[TensorSpec, ...] = part(first.request)
    for other in others:
        found: tuple[TensorSpec, ...] = part(other.request)
        if {(s.name, s.dtype) for s in found} != {(s.name, s.dtype) for s in specs}:
            listed = [", ".join(f"{s.name} {s.dtype}" for s in each) for each in (found, specs)]
            raise UsageError(
                f"'{other.name}' {verb} {listed[0]}, and '{first.name}' {listed[1]}",
                hint="evaluate them one by one",
            )
        dims = {spec.name: spec.dims for spec in found}
        specs = tuple(
            s if s.dims == dims[s.name] else msgspec.structs.replace(s, dims=None) for s in specs
        )
    return specs
