"""One exporter after the other, until one works."""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from enginebay.errors import EnginebayError, ExportError, disk_error, raise_if_interrupted, reason
from enginebay.exporters.export_job import CannotWriteError, Job, Written
from enginebay.exporters.open_axes import sample
from enginebay.models import evaluation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from torch import nn

    from enginebay.ir import ExporterName, IRKind
    from enginebay.models import BoundModel, DynamicShapes

    Patch: TypeAlias = Callable[[nn.Module, str], AbstractContextManager[nn.Module]]
    Exporter: TypeAlias = Callable[[Job], Written]

#: The exporters' names in rewriters' conditions.
SHORT_NAMES = {
    "the default exporter": "dynamo",
    "the TorchScript exporter": "torchscript",
    "torch.jit.trace": "jit.trace",
    "torch.export": "torch.export",
}


@dataclass(frozen=True)
class ExportSource:
    """A model to be exported, with the options that every exporter shares."""

    model: BoundModel
    opset: int | None
    patch: Patch | None

    def attempt(self, name: str, exporter: Exporter, target: Path) -> Written:
        """Export once, with the patch around the model and everything put back afterwards."""
        from enginebay.exporters.flat_model import FlatModel

        module, signature = self.model.source.module, self.model.signature
        assert signature is not None
        patched = self.patch(module, SHORT_NAMES[name]) if self.patch else nullcontext(module)
        # Evaluation mode twice: modules that a rewriter has put in are new, and in training mode.
        with (
            _frozen_heap(),
            _tracing(),
            evaluation(module),
            patched as exported,
            evaluation(exported),
        ):
            job = Job(
                flat=FlatModel(exported, signature),
                samples=sample(signature.example_inputs, self.model.dynamic),
                example_shapes=self.model.example_shapes,
                output_names=tuple(spec.name for spec in self.model.outputs),
                dynamic=_open(self.model.dynamic),
                opset=self.opset,
                target=target,
            )
            return exporter(job)


def _open(dynamic: DynamicShapes) -> DynamicShapes:
    """Without the dimensions whose range is one size: the sample has it, and that is enough."""
    shapes = {
        name: {axis: dim for axis, dim in axes.items() if dim.min != dim.max}
        for name, axes in dynamic.items()
    }
    return {name: axes for name, axes in shapes.items() if axes}


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Spare the collector the objects that were there before.

    An exporter makes so many that going through all of torch's again and again takes a tenth of
    its time.
    """
    if gc.get_freeze_count():  # somebody's own choice, which must stand
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _tracing() -> AbstractContextManager[None]:
    """Plain tensors, whatever mode the caller is in: inference tensors cannot be traced."""
    import torch

    return torch.inference_mode(mode=False)


def write_module(
    task: ExportSource, kind: IRKind, exporter: ExporterName | None, target: Path
) -> Written:
    """Export a model to ``target``, by the chosen exporter or the first one that works.

    Raises:
        ExportError: None works; the message has each one's reason, and the cause is the chain.
    """
    signature = task.model.signature
    assert signature is not None
    exporters = _exporters(task.model.source.module, kind, exporter)
    written = _first_that_works(task, exporters, target)
    return replace(written, notes=(*signature.notes, *written.notes))


def _exporters(module: nn.Module, ir: IRKind, chosen: ExporterName | None) -> dict[str, Exporter]:
    """The exporters to try, in order, by the names that messages give them."""
    from enginebay.exporters.onnx_export import export_dynamo, export_torchscript
    from enginebay.exporters.torch_export import export_torch, export_trace

    if ir == "torchscript":
        return {"torch.jit.trace": export_trace}
    if ir == "exported_program":
        _refuse_script(module)
        return {"torch.export": export_torch}
    both: dict[str, Exporter] = {
        "the default exporter": export_dynamo,
        "the TorchScript exporter": export_torchscript,
    }
    if chosen is None and not _is_script(module):
        return both
    name = "the default exporter" if chosen == "dynamo" else "the TorchScript exporter"
    return {name: both[name]}


def _first_that_works(
    task: ExportSource, exporters: Mapping[str, Exporter], target: Path
) -> Written:
    failures: dict[str, BaseException] = {}
    for name, exporter in exporters.items():
        raise_if_interrupted()  # the exporter before may have taken it for a failure of its own
        try:
            written = task.attempt(name, exporter, target)
        except KeyboardInterrupt:
            raise
        except BaseException as err:  # noqa: BLE001 - an exporter, or the model in it, may raise anything
            _raise_own(err)
            if full := disk_error(err):
                message = f"cannot write '{target.name}': {full.strerror}"
                raise CannotWriteError(message) from full
            failures[name] = err
            _clear(target.parent)
        else:
            return replace(written, notes=(*_fallback_notes(name, failures), *written.notes))
    raise _all_failed(failures)


def _raise_own(err: BaseException | None) -> None:
    """Raise what another exporter would not help: a rewriter's own error, a full disk.

    torch wraps what is raised inside the model into its own errors.
    """
    while err is not None:
        if isinstance(err, EnginebayError) and type(err) is not ExportError:
            raise err
        err = err.__cause__


def _fallback_notes(used: str, failures: Mapping[str, BaseException]) -> list[str]:
    return [
        f"exported by {used}, because {name} failed: {reason(err)}"
        for name, err in failures.items()
    ]


def _all_failed(failures: Mapping[str, BaseException]) -> ExportError:
    """The one error for what went wrong in every exporter that was tried."""
    reasons = "; ".join(f"{name}: {reason(err)}" for name, err in failures.items())
    errors = list(failures.values())
    error = ExportError(
        f"the model cannot be exported by {reasons}",
        hint=getattr(errors[0], "hint", None) or "enginebay preview lists all that is in the way",
    )
    error.__cause__ = (
        errors[0] if len(errors) == 1 else BaseExceptionGroup("every exporter failed", errors)
    )
    return error


def _clear(folder: Path) -> None:
    """Delete the files of a failed exporter, which do not belong to the next one's."""
    for file in folder.iterdir():
        file.unlink()


def _is_script(model: Any) -> bool:
    import torch

    return isinstance(model, torch.jit.ScriptModule)


def _refuse_script(module: nn.Module) -> None:
    if _is_script(module):
        raise ExportError(
            "TorchScript cannot become an exported program: torch.export reads Python"
        )
