"""Choice of an exporter: exporters for the requested IR are tried until one of them works."""

from __future__ import annotations

import gc
import logging
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from enginebay.errors import (
    EnginebayError,
    ExportError,
    disk_error,
    find_root_cause,
    raise_if_interrupted,
    reason,
)
from enginebay.exporters.export_job import CannotWriteError, ExportedFiles, ExportJob
from enginebay.exporters.open_axes import make_samples
from enginebay.ir import format_raising_line
from enginebay.state import evaluation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from torch import nn

    from enginebay.ir import ExporterName
    from enginebay.models import BoundModel
    from enginebay.params import DynamicShapes, IRKind

    #: Takes the model and the name of an exporter, and yields the model to export.
    Patch: TypeAlias = Callable[[nn.Module, str], AbstractContextManager[nn.Module]]
    ExportFunction: TypeAlias = Callable[[ExportJob], ExportedFiles]


_T = TypeVar("_T")

_log = logging.getLogger("enginebay.exporters")


class Exporter(StrEnum):
    """The exporters of models; each value is the name by which rewriters select the exporter."""

    DYNAMO = "dynamo"
    TORCHSCRIPT = "torchscript"
    JIT_TRACE = "jit.trace"
    TORCH_EXPORT = "torch.export"

    @property
    def label(self) -> str:
        """The exporter's name in messages."""
        return _LABELS[self]


_LABELS = {
    Exporter.DYNAMO: "the default exporter",
    Exporter.TORCHSCRIPT: "the TorchScript exporter",
    Exporter.JIT_TRACE: "torch.jit.trace",
    Exporter.TORCH_EXPORT: "torch.export",
}


@dataclass(frozen=True)
class ExportSource:
    """A model to export, with the options of every exporter.

    Attributes:
        model: The model with its inputs bound.
        opset: The requested ONNX opset; None for the exporter's default.
        patch: Applies the rewriters, as for :func:`~enginebay.exporters.write_ir`.
    """

    model: BoundModel
    opset: int | None
    patch: Patch | None

    def run_exporter(
        self, exporter: Exporter, export: Callable[[ExportJob], _T], target: Path
    ) -> _T:
        """Apply ``patch`` to the model, run one exporter, and restore the model."""
        from enginebay.exporters.flat_model import FlatModel

        module, signature = self.model.source.module, self.model.signature
        assert signature is not None
        patched = self.patch(module, exporter.value) if self.patch else nullcontext(module)
        # Evaluation mode twice: modules that a rewriter inserts are new, and in training mode.
        with (
            _freeze_heap(),
            _leave_inference_mode(),
            evaluation(module),
            patched as exported,
            evaluation(exported),
        ):
            job = ExportJob(
                flat=FlatModel(exported, signature),
                samples=make_samples(signature.example_inputs, self.model.dynamic),
                example_shapes=self.model.example_shapes,
                output_names=tuple(spec.name for spec in self.model.outputs),
                dynamic=_drop_fixed_dims(self.model.dynamic),
                opset=self.opset,
                target=target,
            )
            return export(job)


def _drop_fixed_dims(dynamic: DynamicShapes) -> DynamicShapes:
    """Return ``dynamic`` without the dimensions whose smallest and largest sizes are equal."""
    shapes = {
        name: {axis: dim for axis, dim in axes.items() if dim.min != dim.max}
        for name, axes in dynamic.items()
    }
    return {name: axes for name, axes in shapes.items() if axes}


@contextmanager
def _freeze_heap() -> Iterator[None]:
    """Exclude all existing objects from garbage collection inside the block.

    An exporter creates so many objects that the collector would scan all objects of torch many
    times, which takes a tenth of the time of an export.
    """
    if gc.get_freeze_count():  # the application froze its heap itself: leave it frozen
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _leave_inference_mode() -> AbstractContextManager[None]:
    """Leave the caller's inference mode, if any: inference tensors cannot be traced."""
    import torch

    return torch.inference_mode(mode=False)


#: The opset that dynamo writes; a lower one fails mostly, after the whole export.
_DYNAMO_OPSET = 18


def write_module(
    source: ExportSource, kind: IRKind, exporter: ExporterName | None, target: Path
) -> ExportedFiles:
    """Export a model to ``target`` with ``exporter``; None tries exporters until one works.

    Raises:
        ExportError: No exporter works. The message has the reason for each exporter; ``__cause__``
            is the exporter's error, or a group of several errors.
    """
    signature = source.model.signature
    assert signature is not None
    exporters = _list_exporters(source.model.source.module, kind, exporter)
    if (source.opset or _DYNAMO_OPSET) < _DYNAMO_OPSET:
        exporters = dict(reversed(exporters.items()))
    written = _try_exporters(source, exporters, target)
    return replace(written, notes=(*signature.notes, *written.notes))


def _list_exporters(
    module: nn.Module, kind: IRKind, chosen: ExporterName | None
) -> dict[Exporter, ExportFunction]:
    from enginebay.exporters.onnx_export import export_dynamo, export_torchscript
    from enginebay.exporters.torch_export import export_torch, export_trace

    if kind == "torchscript":
        return {Exporter.JIT_TRACE: export_trace}
    if kind == "exported_program":
        _refuse_torchscript(module)
        return {Exporter.TORCH_EXPORT: export_torch}
    onnx_exporters: dict[Exporter, ExportFunction] = {
        Exporter.DYNAMO: export_dynamo,
        Exporter.TORCHSCRIPT: export_torchscript,
    }
    if chosen is None and not _is_torchscript(module):
        return onnx_exporters
    exporter = Exporter(chosen or Exporter.TORCHSCRIPT)
    return {exporter: onnx_exporters[exporter]}


def _try_exporters(
    source: ExportSource, exporters: Mapping[Exporter, ExportFunction], target: Path
) -> ExportedFiles:
    failures: dict[Exporter, BaseException] = {}
    for exporter, export in exporters.items():
        raise_if_interrupted()  # the previous exporter may have caught the interrupt
        try:
            written = source.run_exporter(exporter, export, target)
        except KeyboardInterrupt:
            raise
        except BaseException as err:  # noqa: BLE001 - an exporter, or the model in it, may raise anything
            raise_final_error(err)
            # The next exporter would meet the full disk too.
            if cause := disk_error(err):
                message = f"cannot write '{target.name}': {cause.strerror}"
                raise CannotWriteError(message) from cause
            failures[exporter] = err
            line = format_raising_line(find_root_cause(err))
            _log.debug("%s failed: %s%s", exporter.label, reason(err), line)
            for file in target.parent.iterdir():  # else the next exporter's files would include it
                file.unlink()
        else:
            notes = (*_format_fallback_notes(exporter, failures), *written.notes)
            return replace(written, notes=notes)
    raise _build_export_error(failures)


def raise_final_error(err: BaseException | None) -> None:
    """Raise the first error, among ``err`` and its causes, that every exporter would raise.

    If there is no such error, return.
    """
    # Along the causes, since torch wraps errors from inside the model into its own.
    while err is not None:
        # Another exporter may avoid a plain ExportError.
        if isinstance(err, EnginebayError) and type(err) is not ExportError:
            raise err
        err = err.__cause__


def _format_fallback_notes(used: Exporter, failures: Mapping[Exporter, BaseException]) -> list[str]:
    # Without the raising line: a line in a note is one whose value became a constant.
    return [
        f"exported by {used.label}, because {exporter.label} failed: {reason(err)}"
        for exporter, err in failures.items()
    ]


def _build_export_error(failures: Mapping[Exporter, BaseException]) -> ExportError:
    reasons = "; ".join(
        f"{exporter.label}: {reason(err)}{format_raising_line(find_root_cause(err))}"
        for exporter, err in failures.items()
    )
    errors = list(failures.values())
    error = ExportError(
        f"the model cannot be exported by {reasons}",
        hint=getattr(errors[0], "hint", None)
        or "'enginebay preview' lists everything that prevents the export",
    )
    error.__cause__ = (
        errors[0] if len(errors) == 1 else BaseExceptionGroup("every exporter failed", errors)
    )
    return error


def _is_torchscript(model: object) -> bool:
    import torch

    return isinstance(model, torch.jit.ScriptModule)


def _refuse_torchscript(module: nn.Module) -> None:
    if _is_torchscript(module):
        raise ExportError(
            "TorchScript cannot be converted to an exported program: torch.export requires "
            "Python code"
        )
