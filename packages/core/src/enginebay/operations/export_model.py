"""``export``: a model becomes an IR, with the rewriters for its engine applied."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.backend import get_backend
from enginebay.config import ExportOptions, refuse_options
from enginebay.errors import ArtifactExistsError, UsageError
from enginebay.ir import SUFFIXES
from enginebay.models import shapes_of
from enginebay.operations.rewrite_model import export_patch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.ir import IRKind, IRModel
    from enginebay.params import Shapes


def export(
    model: Any,
    args: Any = None,
    *,
    path: str | Path | None = None,
    backend: str | None = None,
    dynamic: Mapping[str, Any] | Sequence[str] | None = None,
    min_shapes: Shapes | None = None,
    max_shapes: Shapes | None = None,
    options: ExportOptions | None = None,
    config: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> IRModel:
    """Turn a model into an IR.

    Args:
        model: An ``nn.Module``, or text that names one: ``file.py:attr``, ``module:attr``, a
            ``.pt`` (TorchScript) or ``.pt2`` file, or ``SCHEME:NAME`` for a plugin's.
        args: Example inputs: a tensor, a tuple of positional arguments, or a dict by name; or
            the calls that :func:`enginebay.record` has seen.
        path: The file to write; by default the model's name in the current folder. What it ends
            with says which IR it is, where the options do not; else it is ONNX.
        backend: Apply the rewriters for this engine.
        dynamic: The open dimensions, as :func:`enginebay.deploy` takes them.
        min_shapes: The smallest shape of inputs, another way to say which dimensions are open.
        max_shapes: The largest shape of inputs.
        options: How to export, as :func:`enginebay.deploy` takes it: without cuts, a task and
            ``keep_ir``, which are about artifacts.
        config: The deployment config that rewriters see as ``ctx.config``. Its
            ``codebase_config`` says whose model a bare name is.
        overwrite: Replace a file that is there already.

    Returns:
        The IR: its files, inputs, outputs, which exporter wrote it, and notes on the way.

    Raises:
        ModelSourceError: ``model`` does not lead to a model.
        ModelError: The model's forward raised.
        ExportError: No exporter could do it.
        ArtifactExistsError: The file is there already.
    """
    from enginebay.exporters import check_choices, write_ir
    from enginebay.models import bind, find_model, unchanged

    options = options or ExportOptions()
    refuse_options(options, "export")
    kind = _kind_of(path, options.ir)
    source = find_model(model, (config or {}).get("codebase_config"), shapes_of(args))
    check_choices(source, kind, options.exporter)
    target = Path(path) if path else Path(f"{source.name}{SUFFIXES[kind]}")
    if target.exists() and not overwrite:
        raise ArtifactExistsError(
            f"'{target}' is there already",
            hint="pass --overwrite, or another name",
        )
    if source.model is None and source.ir is not None:
        return source.ir  # it is ONNX already
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
        patch = export_patch(
            backend=backend, ir=kind, rewriters=options.rewriters, config=config, opset=opset
        )
        return write_ir(bound, kind, target, exporter=options.exporter, opset=opset, patch=patch)


def _kind_of(path: str | Path | None, wanted: IRKind | None) -> IRKind:
    if path is None:
        return wanted or "onnx"
    for kind, suffix in SUFFIXES.items():
        if Path(path).suffix == suffix:
            if wanted not in (kind, None):
                raise UsageError(
                    f"'{path}' has the suffix of {kind}, and {wanted} is to be written",
                    hint=f"name it {Path(path).with_suffix(SUFFIXES[wanted])}, or leave --ir out",
                )
            return kind
    if wanted:
        return wanted
    raise UsageError(
        f"'{path}' does not say which IR to write: wanted {', '.join(SUFFIXES.values())}",
        hint="pass --ir",
    )
