"""``draft_irs``: export a model for several backends, and list what cannot be exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import (
    EnginebayError,
    LackingOperatorsError,
    ModelError,
    PluginError,
    UsageError,
)
from enginebay.exporters import OnnxDraft, write_draft, write_ir
from enginebay.ir import Draft, IRModel, Obstacle
from enginebay.models import bind, shapes_of
from enginebay.operations.backend import get_backend
from enginebay.operations.rewrite_model import export_patch, find_sets
from enginebay.operations.rewriter_sets import rewriters_for, target_of
from enginebay.sources import find_model
from enginebay.state import unchanged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from enginebay.models import BoundModel
    from enginebay.rewriting import RewriterSet


def draft_irs(
    model: object,
    args: object = None,
    *,
    backends: Sequence[str],
    rewriters: Sequence[RewriterSet | str] = (),
    folder: Path,
) -> dict[str, Draft]:
    """Export a model for each backend as a deployment does, and go on where a deployment fails.

    An operator that the ONNX exporter cannot translate becomes a placeholder. If torch.export
    fails, ``torch.export.draft_export`` continues and lists all problems.

    Args:
        model: The model, as for :func:`enginebay.deploy`.
        args: Example inputs, as for :func:`enginebay.deploy`.
        backends: The backends' names.
        rewriters: The caller's rewriters, as for :class:`enginebay.ExportOptions`.
        folder: The folder for the files.

    Raises:
        UsageError: The model or its inputs are wrong.
        ModelError: The model's forward raised.
        PluginError: A plugin that has rewriters for every backend cannot be used.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
        ...     drafts = draft_irs(
        ...         torch.nn.ReLU(), torch.ones(3), backends=["onnxruntime"], folder=Path(folder)
        ...     )
        >>> drafts["onnxruntime"].kind  # doctest: +SKIP
        'onnx'
    """
    sets = find_sets(rewriters)
    source = find_model(model, None, shapes_of(args))
    if source.model is None and source.ir is not None:
        return dict.fromkeys(backends, Draft(ir=source.ir, kind=source.ir.kind))
    with unchanged(source):
        return dict(_export_each(bind(source, args), backends, sets, folder))


def _export_each(
    model: BoundModel, backends: Sequence[str], sets: Sequence[RewriterSet], folder: Path
) -> Iterator[tuple[str, Draft]]:
    shared: list[OnnxDraft] = []
    for name in backends:
        try:
            draft = _export_for(name, model, sets, folder / name, shared)
        # A wrong model or input is the same for every backend.
        except (UsageError, ModelError):
            raise
        except EnginebayError as err:
            if isinstance(err, PluginError):
                # Likewise rewriters for every backend, such as Enginebay's own: raise their error.
                rewriters_for(target_of(None))
            draft = Draft(error=str(err))
        yield name, draft


def _export_for(
    name: str,
    model: BoundModel,
    sets: Sequence[RewriterSet],
    folder: Path,
    shared: list[OnnxDraft],
) -> Draft:
    kind = get_backend(name).info.irs[0]
    patch = export_patch(target_of(name, kind), sets)
    ir: IRModel | None = None
    obstacles: tuple[Obstacle, ...] = ()
    if kind == "onnx":
        # Most rewriters have nothing to do in most models: one export then serves all engines.
        drafted = next((one for one in shared if one.serves(model, patch)), None)
        if drafted is None:
            drafted = write_draft(model, folder / "draft.onnx", patch)
            shared.append(drafted)
        ir, obstacles = drafted.ir, drafted.obstacles
    else:
        try:
            ir = write_ir(model, kind, folder / "draft", patch=patch)
        except LackingOperatorsError as err:
            obstacles = tuple(_list_unlowered(err))
    rewritten = patch.report.fired if patch.report else {}
    return Draft(ir=ir, kind=kind, obstacles=obstacles, rewritten=rewritten)


def _list_unlowered(error: LackingOperatorsError) -> Iterator[Obstacle]:
    """Yield an obstacle for each operator that the error lists because no lowering replaces it."""
    for operator, modules in error.operators.items():
        name = operator.replace(".", "::", 1)
        yield Obstacle(operator=name, modules=modules, reason="the engine does not support it")
