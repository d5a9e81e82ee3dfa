"""The parts of an evaluation: artifacts, metrics, data, a model; and what identifies them."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from enginebay.artifact import Artifact, LoadRequest, load_request, use_artifact
from enginebay.errors import UsageError
from enginebay.evaluation.chunks import fingerprint
from enginebay.models import find_model, unchanged
from enginebay.tensors import is_torch, to_numpy
from enginebay.verification import reference_model

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from enginebay.data import DataSet
    from enginebay.evaluation.find import MetricSource
    from enginebay.evaluation.journal import Journal
    from enginebay.evaluation.rows import Row
    from enginebay.images import ImageInput, Task
    from enginebay.models import ModelSource
    from enginebay.tensors import NumpyArray, TensorSpec


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


@dataclass
class Run:
    """One evaluation.

    Attributes:
        candidates: The artifacts.
        sources: The metrics.
        data: The items.
        journal: Where rows and checkpoints go; None for nowhere.
        digest: Of all items; empty until they were read.
        model: A digest of the model's weights and its source; empty without a journal.
        unused: Inputs that items may have, and that no artifact takes.
    """

    candidates: Sequence[Candidate]
    sources: Sequence[MetricSource]
    data: DataSet
    journal: Journal | None = None
    digest: str = ""
    model: str = ""
    unused: Collection[str] = ()

    def __post_init__(self) -> None:
        self.inputs = _common(self.candidates, "takes", lambda request: request.inputs)
        self.outputs = _common(self.candidates, "gives", lambda request: request.outputs)

    def key(self, candidates: Sequence[Candidate]) -> str:
        """A digest of what is evaluated, but for the data."""
        artifacts = [f"{each.name} {each.identity}" for each in candidates]
        metrics = [source.identity for source in self.sources]
        return _digest(*artifacts, *metrics, self.model)

    def finished(self) -> dict[str, list[Row]]:
        """The rows of artifacts that an earlier run has finished, on the same items."""
        assert self.journal is not None
        self.digest = fingerprint(self.data, self.inputs)
        found = {}
        for candidate in self.candidates:
            rows = [self.journal.rows.get(key) for key in self._keys(candidate)]
            if None not in rows:
                named = [
                    msgspec.structs.replace(row, artifact=candidate.name) for row in rows if row
                ]
                found[candidate.name] = named
        return found

    def write(self, candidate: Candidate, rows: Sequence[Row]) -> list[Row]:
        """Write an artifact's rows to the journal, and return them with their keys.

        Raises:
            OSError: The disk does not take them.
        """
        if self.journal is None:
            return list(rows)
        keys = zip(rows, self._keys(candidate), strict=True)
        keyed = [msgspec.structs.replace(row, key=key) for row, key in keys]
        for row in keyed:
            self.journal.append(row)
        return keyed

    def _keys(self, candidate: Candidate) -> list[str]:
        return [
            _digest(candidate.identity, source.identity, self.model, self.digest)
            for source in self.sources
        ]


def find_candidates(
    artifacts: str | Path | Artifact | Sequence[str | Path | Artifact],
) -> list[Candidate]:
    """Open the artifacts that are meant.

    Raises:
        UsageError: There is none, or one is named twice.
        ArtifactError: One is damaged, or bound to another engine or device.
        BackendUnavailableError: The backend of one cannot be used here.
    """
    listed = [artifacts] if isinstance(artifacts, str | Path | Artifact) else list(artifacts)
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
    identity = blake2b(msgspec.json.encode(opened.manifest), digest_size=16).hexdigest()
    return Candidate(name, load_request(opened), identity, opened)


def common_task(candidates: Sequence[Candidate]) -> Task | None:
    """The task by which all artifacts make the same input of a picture; None where none has one.

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
        if _preparation(other) != _preparation(task):
            raise UsageError(
                f"'{first}' and '{name}' make different inputs of a picture, or have other classes",
                hint="evaluate them one after the other",
            )
    return task


def _preparation(task: Task) -> tuple[ImageInput, tuple[str, ...]]:
    """What makes another item of a picture; names and dtypes are compared for any data set."""
    return msgspec.structs.replace(task.image, input="", dtype=""), task.classes


@contextmanager
def torch_runner(
    model: Any, run: Run
) -> Iterator[Callable[[Mapping[str, NumpyArray]], dict[str, NumpyArray]]]:
    """Yield a function that runs a PyTorch model by the artifacts' names.

    After the block the model is as it was.

    Raises:
        ModelSourceError: There is no such model.
        UsageError: It is an ONNX file, which PyTorch cannot run.
        InputError: The items do not fit it.
    """
    source = find_model(model)
    if source.model is None:
        raise UsageError(
            f"'{source.description}' does not run in PyTorch, which artifacts are compared with",
            hint="name the PyTorch model that it was made from, or leave --model out",
        )
    example = None
    if source.example_inputs is None:
        example = next(run.data.items(run.inputs)).inputs
    with unchanged(source):
        if run.journal is not None:
            run.model = _model_identity(source)
        names = [spec.name for spec in run.inputs]
        outputs = [spec.name for spec in run.outputs]
        bound = reference_model(source, names, example, outputs or None)
        with bound.runner() as runner:
            yield runner


def _common(candidates: Sequence[Candidate], verb: str, part: Any) -> tuple[TensorSpec, ...]:
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


def _model_identity(source: ModelSource) -> str:
    """A digest of the model's weights and of its class's source."""
    found = blake2b(source.description.encode(), digest_size=16)
    for name, value in source.module.state_dict().items():
        found.update(name.encode())
        found.update(to_numpy(value).tobytes() if is_torch(value) else repr(value).encode())
    kind = type(source.module)
    try:
        found.update(Path(inspect.getfile(kind)).read_bytes())
    except (TypeError, OSError):  # built in, or typed into an interpreter
        found.update(kind.__qualname__.encode())
    return found.hexdigest()


def _digest(*parts: str) -> str:
    return blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
