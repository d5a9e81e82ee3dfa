"""``judge_folder``: compare each file of an exported model with the model in PyTorch."""

from __future__ import annotations

import shutil
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from enginebay import VerdictWarning, deploy, get_backend
from enginebay.authors.sources import evaluation, find_model, unchanged
from enginebay.commands import Result, Table
from enginebay.errors import (
    EnginebayError,
    InputError,
    NotVerifiedError,
    UsageError,
    first_line,
    one_line,
)
from enginebay_transformers.component_modules import complete_sample, find_modules, grow_sample
from enginebay_transformers.exported_folder import list_numbers, read_folder
from enginebay_transformers.laws import Part, find_breaches
from enginebay_transformers.named_file import name_sizes, write_named
from enginebay_transformers.part_reference import full_caches, part_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from enginebay import Verification
    from enginebay.commands import Block
    from enginebay_transformers.exported_folder import ExportedFolder, Sizes


@dataclass(frozen=True)
class JudgedComponent:
    """A component on a backend.

    Attributes:
        component: The component's name.
        backend: The backend's name.
        verdict: ``verified``, ``mismatched``, ``unverified`` or ``crashed``; or ``refused`` if the
            backend cannot build or run it.
        sizes: The sizes that were compared, of each open size.
        error: What differs, in one line; empty for ``verified``.
        notes: The limitations of the verdict.
    """

    component: str
    backend: str
    verdict: str
    sizes: tuple[str, ...]
    error: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class JudgedFolder(Result):
    """The result of :func:`judge_folder`.

    Attributes:
        verified: True if each component is verified on each backend, and no law is broken.
        transformers: The version of transformers that exported the folder.
        rows: A row for each component and backend.
        breaches: What the components lack together, a line each.
    """

    verified: bool
    transformers: str
    rows: tuple[JudgedComponent, ...]
    breaches: tuple[str, ...]

    def blocks(self) -> Iterator[Block]:
        """Yield a table of the components, and a line for each error and each broken law."""
        rows = [(r.component, r.backend, r.verdict, "; ".join(r.sizes) or "-") for r in self.rows]
        yield Table(("COMPONENT", "BACKEND", "VERDICT", "SIZES TRIED"), rows)
        errors = [f"{r.component} on {r.backend}: {r.error}" for r in self.rows if r.error]
        yield from (f"error: {line}" for line in (*errors, *self.breaches))
        for row in self.rows:
            yield from (f"warning: {row.component} on {row.backend}: {n}" for n in row.notes)


def judge_folder(
    folder: str | Path,
    model: object,
    sample: Mapping[str, Any] | None = None,
    *,
    backends: str | Sequence[str] = "onnxruntime",
    verify: Mapping[str, Any] | None = None,
) -> JudgedFolder:
    """Judge the files of an exported model by the model in PyTorch, on each backend.

    Args:
        folder: The folder that ``ExportedModel.save_pretrained`` of transformers wrote.
        model: The model that was exported, as :func:`enginebay.deploy` takes it.
        sample: Arguments of ``generate`` or, for a single component, of ``forward``: arrays, or
            specs of random ones. By default the model's own example; ids are random by default,
            and a mask pads one row on the left.
        backends: One backend that reads ONNX, or several.
        verify: Options of the comparison, as :func:`enginebay.deploy` takes them.

    Raises:
        UsageError: The folder is no such folder or has no ONNX files, the model is another one, or
            the sample lacks an input.
        ArtifactError: The folder is damaged, or a component is missing.

    Example:
        >>> judge_folder("exported", model).verified  # doctest: +SKIP
        True
    """
    found = read_folder(folder)
    if found.format != "onnx":
        raise UsageError(
            f"'{folder}' has files of the format {found.format}; only ONNX files are judged",
            hint="export with OnnxExporter, whose files OpenVINO reads too: --backend openvino",
        )
    backends = [backends] if isinstance(backends, str) else backends
    for name in backends:
        get_backend(name)  # raises if it cannot be used
    source = find_model(model)
    if not hasattr(getattr(source.model, "config", None), "to_dict"):
        raise UsageError(f"'{source.description}' is not a model of transformers")
    module = source.module
    _check_config(found, module.config.to_dict())
    generates = [each.name for each in found.components] != ["model"]
    rows, parts = [], []
    with (
        unchanged(source),
        evaluation(module),
        full_caches(),
        _name_sample(),
        TemporaryDirectory() as work,
    ):
        given = complete_sample(module, found, sample or source.example_inputs or {}, generates)
        modules = find_modules(found, module, given, generates)
        grown = find_modules(found, module, grow_sample(given), generates)
        for each in found.components:
            part, inputs = modules[each.name]
            sizes = name_sizes(each, inputs, grown[each.name][1])
            file = write_named(Path(folder, each.file), sizes, Path(work, each.name))
            reference = part_reference(part, inputs, list(sizes), each.outputs)
            judged = [_judge(each.name, file, reference, name, verify or {}) for name in backends]
            rows += [row for row, _ in judged]
            tried = [_tried_sizes(sizes, verdict) for row, verdict in judged if not row.error]
            least = {n: min((t[n] for t in tried), key=len) for n in tried[0]} if tried else None
            parts.append(Part(each.name, part, inputs, sizes, least))
        breaches = tuple(find_breaches(module, given, parts, generates=generates))
    verified = not breaches and all(row.verdict == "verified" for row in rows)
    return JudgedFolder(verified, found.transformers, tuple(rows), breaches)


@contextmanager
def _name_sample() -> Iterator[None]:
    try:
        yield
    except EnginebayError:
        raise
    except Exception as err:  # of the model's own code
        text = f"the model fails on the sample: {one_line(err.__cause__ or err)}"
        raise InputError(text, hint="pass another with --input NAME=SHAPE or NAME=FILE") from err


def _check_config(found: ExportedFolder, config: dict[str, Any]) -> None:
    own = dict(list_numbers(config))
    for name, value in found.numbers.items():
        if own.get(name, value) != value:
            raise UsageError(
                f"another model: '{name}' is {value} in the config of '{found.path}', and "
                f"{own[name]} in that of --model",
                hint="pass the model that was exported",
            )


def _judge(
    name: str, file: Path, reference: Any, backend: str, verify: Mapping[str, Any]
) -> tuple[JudgedComponent, Verification | None]:
    options = {**verify, "reference": (reference, dict(reference.tensors))}
    work_dir = file.parent / backend
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VerdictWarning)  # they are the notes
            found = deploy(
                file, dict(reference.tensors), backend=backend, work_dir=work_dir, verify=options
            ).verification
        error = ""
    except NotVerifiedError as err:
        found = cast("Verification", err.verdict)
        worst = max(found.outputs, key=lambda output: output.badness, default=None)
        error = found.reason or (worst.describe() if worst else first_line(err))
    except EnginebayError as err:
        return JudgedComponent(name, backend, "refused", (), first_line(err)), None
    shutil.rmtree(work_dir, ignore_errors=True)
    sizes = found.basis.range.sizes if found.basis and found.basis.range else {}
    texts = tuple(size.describe(own) for own, size in sizes.items())
    row = JudgedComponent(name, backend, found.verdict, texts, error, found.warnings)
    return row, found


def _tried_sizes(sizes: Sizes, verdict: Verification | None) -> dict[str, tuple[int, ...]]:
    """Return the sizes that were compared, of each open size."""
    found = verdict.basis.range.sizes if verdict and verdict.basis and verdict.basis.range else {}
    compared = {axis: each.sizes for each in found.values() for axis in each.axes}
    return {
        size: compared.get((name, axis), ())
        for name, dims in sizes.items()
        for axis, size in enumerate(dims)
        if isinstance(size, str)
    }
