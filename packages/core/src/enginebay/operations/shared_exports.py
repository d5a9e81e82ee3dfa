"""Exports that several deployments of one model share."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import EnginebayError
from enginebay.rewriting import CORE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from enginebay.ir import IRKind, IRModel
    from enginebay.models import BoundModel
    from enginebay.rewriting import AppliedRewriter, ExportPatch, RewriteReport

    Exported = tuple[IRModel, RewriteReport | None]


class SharedExports:
    """The exports of one model so far, and the errors of those that failed.

    Two backends share one where rewriters make no difference between them: in a run of the model
    none but core's own fires for either. Whether symbolics and lowerings of a backend fire is only
    known after its export, so it shares that with those after it, and takes none from those before.

    Args:
        folder: Where copies of the files are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._exported: dict[Hashable, Exported | EnginebayError] = {}
        self._rewritten: dict[Hashable, Any] = {}

    def get(
        self,
        model: BoundModel,
        kind: IRKind,
        patch: ExportPatch,
        choices: Hashable,
        path: Path,
        write: Callable[[], Exported],
    ) -> Exported:
        """Return the model's export, which is made unless an equal one was.

        Args:
            model: The model with its inputs bound.
            kind: The IR.
            patch: Applies the rewriters for the backend.
            choices: What else makes a difference: the exporter, the inputs' names and shapes.
            path: Where the main file is wanted.
            write: Exports the model to that path.

        Raises:
            ExportError: The export fails, or an equal one failed before.
        """
        run = (patch.backend, kind, choices)  # of one backend, at any precision
        if run not in self._rewritten:
            self._rewritten[run] = _rewritten(model, patch)
        key = (kind, choices, self._rewritten[run])
        found = self._exported.get(key)
        if found is None:
            found = self._exported[key] = self._written(write)
            if isinstance(found, tuple) and not _own_fired(found[1]):
                self._exported.setdefault((kind, choices, None), found)
        if isinstance(found, EnginebayError):
            raise found
        exported, report = found
        return _copied(exported, path.parent), report

    def _written(self, write: Callable[[], Exported]) -> Exported | EnginebayError:
        try:
            exported, report = write()
        except EnginebayError as err:
            return err
        folder = self._folder / str(len(self._exported))
        return _copied(exported, folder), report


def _copied(exported: IRModel, folder: Path) -> IRModel:
    """The same export in another folder; files that are there already are left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    files = tuple(folder / file.name for file in exported.files)
    for source, target in zip(exported.files, files, strict=True):
        if not target.exists():
            shutil.copyfile(source, target)
    return msgspec.structs.replace(exported, path=folder / exported.path.name, files=files)


def _rewritten(model: BoundModel, patch: ExportPatch) -> Any:
    """What of an export depends on the backend: its rewriters that a run of the model needs."""
    assert model.signature is not None
    import torch

    tensors = {name: one.clone() for name, one in model.signature.example_inputs.items()}
    try:
        with patch(model.source.module, "dynamo") as patched, torch.no_grad():
            model.signature.run(patched, tensors)
    except Exception:  # noqa: BLE001  # a replacement may be made for tracing alone
        return object()  # equal to nothing else
    assert patch.report is not None
    own = _own(patch.report)
    if any(each.count or each.kind in ("symbolic", "lowering") for each in own):
        return patch.backend, tuple((each.kind, each.name) for each in own)
    return None


def _own_fired(report: RewriteReport | None) -> bool:
    return report is not None and any(each.count for each in _own(report))


def _own(report: RewriteReport) -> list[AppliedRewriter]:
    """The rewriters of a backend."""
    return [each for each in report.applied if each.distribution != CORE]
