"""``export``: export a model to an IR, and apply the rewriters for one backend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from enginebay.config import ExportOptions, refuse_options
from enginebay.errors import ArtifactExistsError, UsageError
from enginebay.ir import SUFFIXES
from enginebay.models import shapes_of
from enginebay.operations.backend import get_backend
from enginebay.operations.rewrite_model import export_patch, find_sets
from enginebay.operations.rewriter_sets import target_of
from enginebay.rewriting import RewriteReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.ir import IRModel
    from enginebay.params import IRKind, Shapes


def export(
    model: object,
    args: object = None,
    *,
    path: str | Path | None = None,
    backend: str | None = None,
    dynamic: Mapping[str, object] | Sequence[str] | None = None,
    min_shapes: Shapes | None = None,
    max_shapes: Shapes | None = None,
    options: ExportOptions | Mapping[str, object] | None = None,
    config: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> IRModel:
    """Export a model to an IR.

    Args:
        model: An ``nn.Module``, or text that refers to a model: ``file.py:attr``, ``module:attr``,
            a ``.pt`` (TorchScript) or ``.pt2`` file, or ``SCHEME:NAME`` for a model of a plugin.
        args: Example inputs: a tensor, a tuple of positional arguments, or a dict by name; or
            the calls that :func:`enginebay.record` recorded.
        path: The file to write; by default a file in the current folder with the model's name. If
            ``options.ir`` is not set, the suffix selects the IR; without both, the IR is ONNX.
        backend: The backend whose rewriters are applied. By default, only the rewriters for all
            backends are applied.
        dynamic: The dynamic dimensions, as for :func:`enginebay.deploy`.
        min_shapes: The smallest shape of each input, as an alternative to ``dynamic``.
        max_shapes: The largest shape of each input.
        options: How to export, as ``export`` of :func:`enginebay.deploy`: options, or a mapping of
            them. The options ``cuts``, ``task`` and ``keep_ir`` concern artifacts and are not
            allowed.
        config: The deployment config that rewriters can read as ``ctx.config``. Its
            ``codebase_config`` selects the model source for a name without a scheme.
        overwrite: Replace an existing file.

    Returns:
        The IR: its files, inputs, outputs, exporter and notes.

    Raises:
        ModelSourceError: ``model`` does not name a model.
        ModelError: The model's forward raised.
        ExportError: Every exporter failed.
        ArtifactExistsError: The file exists.
    """
    from enginebay.exporters import check_choices, write_ir
    from enginebay.models import bind
    from enginebay.sources import find_model
    from enginebay.state import unchanged

    options = ExportOptions.of(options)
    refuse_options(options, "export")
    kind = _choose_ir(path, options.ir)
    source = find_model(model, (config or {}).get("codebase_config"), shapes_of(args))
    check_choices(source, kind, options.exporter)
    target = Path(path) if path else Path(f"{source.name}{SUFFIXES[kind]}")
    if target.exists() and not overwrite:
        raise ArtifactExistsError(
            f"'{target}' exists",
            hint="pass --overwrite, or another file name",
        )
    if source.model is None and source.ir is not None:
        return source.ir  # a file of this IR needs no export
    with unchanged(source):
        bound = bind(
            source,
            args,
            input_names=options.input_names,
            output_names=options.output_names,
            dynamic=dynamic,
            min_shapes=min_shapes,
            max_shapes=max_shapes,
        )
        opset = options.opset
        if opset is None and backend and kind == "onnx":
            opset = get_backend(backend).info.opset
        rewriting_target = target_of(backend, kind, config=config or {}, opset=opset)
        patch = export_patch(rewriting_target, find_sets(options.rewriters))
        model = write_ir(bound, kind, target, exporter=options.exporter, opset=opset, patch=patch)
        report = patch.report or RewriteReport()
        distribution = get_backend(backend).distribution if backend else ""
        lines = (f"rewriters: {line}" for line in report.summarize(distribution))
        return structs.replace(model, notes=(*model.notes, *lines))


def _choose_ir(path: str | Path | None, requested: IRKind | None) -> IRKind:
    if path is None:
        return requested or "onnx"
    for kind, suffix in SUFFIXES.items():
        if Path(path).suffix == suffix:
            # A file with the suffix of another IR could not be read again.
            if requested not in (kind, None):
                new_path = Path(path).with_suffix(SUFFIXES[requested])
                raise UsageError(
                    f"'{path}' has the suffix of {kind}, but {requested} was requested",
                    hint=f"name the file {new_path}, or leave --ir out",
                )
            return kind
    if requested:
        return requested
    raise UsageError(
        f"unknown suffix of '{path}': expected {', '.join(SUFFIXES.values())}",
        hint="pass --ir",
    )
