"""Draft export to ONNX, which lists all obstacles to an export instead of failing at the first.

``torch.export.draft_export`` runs the model on real inputs and thus continues after errors of
``torch.export.export``. Operators without an ONNX translation become placeholders.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from enginebay import torch_private
from enginebay.errors import ExportError
from enginebay.exporters.export_job import ExportedFiles, report_write_errors
from enginebay.exporters.exporter_choice import Exporter, ExportSource, raise_final_error
from enginebay.exporters.ir_files import write_staged
from enginebay.exporters.onnx_export import save_program, translate_dynamo
from enginebay.exporters.program_capture import build_torch_dims
from enginebay.ir import Draft, IRModel, Obstacle, describe, is_model_file, quiet, read_onnx
from enginebay.rewriting import active_lowerings, observe_operators, operator_name
from enginebay.torch_private import buffers_of, parameters_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from torch import Tensor, nn
    from torch.export import ExportedProgram
    from torch.fx import Node

    from enginebay.exporters.export_job import ExportJob
    from enginebay.models import BoundModel
    from enginebay.rewriting import ExportPatch
    from enginebay.torch_private import DraftExportReport

_T = TypeVar("_T")


@dataclass(frozen=True)
class OnnxDraft:
    """The export of a model to ONNX for one backend.

    Attributes:
        ir: The ONNX file, in which operators of ``Draft.placeholder_domain`` are placeholders.
        obstacles: The operators and lines that torch.export or the ONNX exporter cannot handle.
        operators: The names of the operators, without namespace and overload, if no rewriter had
            anything to do and nothing is missing; otherwise None.
    """

    ir: IRModel
    obstacles: tuple[Obstacle, ...] = ()
    operators: frozenset[str] | None = None

    def serves(self, model: BoundModel, patch: ExportPatch) -> bool:
        """Return True if the export with other rewriters has the same result.

        It has if no rewriter had anything to do, and none of the others would have: no function or
        module of theirs is used while the model runs, and no operator in the graph is theirs.

        Args:
            model: The model with its inputs bound.
            patch: Applies the other rewriters.
        """
        if self.operators is None:
            return False
        known = self.operators

        def is_untouched(job: ExportJob) -> bool:
            import torch

            lowerings = active_lowerings()
            names = {*patch.symbolics, *(lowerings.names(None) if lowerings else ())}
            theirs = {name.rpartition("::")[2] for name in names}
            with quiet(), torch.no_grad():
                return theirs.isdisjoint(known | observe_operators(lambda: job.flat(*job.tensors)))

        source = ExportSource(model, None, patch)
        untouched = source.run_exporter(Exporter.DYNAMO, is_untouched, self.ir.path)
        assert patch.report is not None
        return untouched and not patch.report.fired


def write_draft(model: BoundModel, path: Path, patch: ExportPatch) -> OnnxDraft:
    """Export a model to ONNX as for a deployment; if that fails, with placeholders.

    Args:
        model: The model with its inputs bound.
        path: The ONNX file to write.
        patch: Applies the rewriters.

    Raises:
        ExportError: The file cannot be written.
    """
    source = ExportSource(model, None, patch)
    operators: set[str] = set()
    obstacles: list[Obstacle] = []

    def export(job: ExportJob) -> ExportedFiles:
        program = translate_dynamo(job)
        assert program.exported_program is not None
        operators.update(filter(None, map(operator_name, program.exported_program.graph.nodes)))
        # Only a run on real inputs finds out whether the shapes of a custom operator are right.
        if any(not name.startswith(("aten::", "prims::")) for name in operators):
            raise ExportError("there are operators of other libraries than torch")
        return save_program(program, job)

    def export_draft(job: ExportJob) -> ExportedFiles:
        translated = {name if "::" in name else f"aten::{name}" for name in patch.symbolics}
        return _export_draft(job, translated, obstacles)

    def write(function: Callable[[ExportJob], ExportedFiles]) -> IRModel:
        return write_staged(
            path, "onnx", lambda target: source.run_exporter(Exporter.DYNAMO, function, target)
        )

    try:
        ir = write(export)
    except Exception as err:  # noqa: BLE001 - torch, or the model in it, may raise anything
        raise_final_error(err)
        return OnnxDraft(write(export_draft), tuple(obstacles))
    fired = patch.report and patch.report.fired
    names = frozenset(name.partition("::")[2] for name in operators)
    return OnnxDraft(ir, operators=None if fired else names)


def _export_draft(
    job: ExportJob, translated: Collection[str], obstacles: list[Obstacle]
) -> ExportedFiles:
    import torch

    from enginebay.rewriting import find_untranslated, placeholder_translations

    with quiet():
        with _show_parameters_as_buffers(job.flat):
            program = torch.export.draft_export(
                job.flat,
                job.tensors,
                dynamic_shapes=(build_torch_dims(job),) if job.dynamic else None,
            )
        report = torch_private.draft_report(program)
        obstacles += _list_capture_obstacles(program, report)
        with torch_private.use_real_shapes(report):
            missing = find_untranslated(program, translated)
            obstacles += [
                Obstacle(
                    operator=operator_name(node),
                    modules=(_innermost_module(node),),
                    reason="the ONNX exporter has no translation",
                )
                for node in missing
            ]
            written = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                input_names=list(job.samples),
                output_names=list(job.output_names),
                custom_translation_table=placeholder_translations(
                    missing, Draft.placeholder_domain
                ),
            )
        assert written is not None
        written.model.metadata_props.update(describe((), (), job.example_shapes))
        with report_write_errors(job.target):
            written.save(job.target)
    described = read_onnx(job.target)
    return ExportedFiles("torch.export draft", described.inputs, described.outputs, described.opset)


@contextmanager
def _show_parameters_as_buffers(model: nn.Module) -> Iterator[None]:
    """Turn the model's parameters into buffers inside the block.

    ``draft_export`` runs the model on copies of all tensors. The copy of a ``Parameter`` has the
    same size but no values, so a branch on values would read uninitialised memory.
    """
    buffers_by_parameter: dict[nn.Parameter, Tensor] = {}  # shared parameters stay shared
    before = [(part, dict(parameters_of(part)), dict(buffers_of(part))) for part in model.modules()]
    try:
        for module, parameters, _ in before:
            for name, parameter in parameters.items():
                if parameter is not None:
                    del parameters_of(module)[name]
                    buffers_of(module)[name] = buffers_by_parameter.setdefault(
                        parameter, parameter.detach()
                    )
        yield
    finally:
        for module, parameters, buffers in before:
            _replace_items(parameters_of(module), parameters)
            _replace_items(buffers_of(module), buffers)


def _replace_items(mapping: dict[str, _T], values: dict[str, _T]) -> None:
    mapping.clear()
    mapping.update(values)


def _list_capture_obstacles(
    program: ExportedProgram, report: DraftExportReport
) -> Iterator[Obstacle]:
    failures = torch_private.draft_failure_types()
    for failure in report.failures:
        data = failure.data
        if failure.failure_type is failures.DATA_DEPENDENT_ERROR:
            for location, line in _find_deciding_lines(program, data):
                yield Obstacle(
                    operator=line,
                    modules=_find_line_modules(program, location),
                    reason=f"torch.export cannot branch on values, at {Path(location).name}",
                )
        elif failure.failure_type is not failures.GUARD_ADDED:
            missing = failure.failure_type is failures.MISSING_FAKE_KERNEL
            text = (
                "there is no fake kernel"
                if missing
                else "the fake kernel returns other shapes than the real one"
            )
            name = data["op"].rpartition(".")[0].replace(".", "::", 1)
            yield Obstacle(
                operator=name,
                modules=_find_operator_modules(program, name),
                reason=f"torch.export cannot run the operator: {text}",
            )


def _find_deciding_lines(
    program: ExportedProgram, data: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield the location (``file:line``) and the text of each line that branches on tensor data."""
    frame = data["user_stack"][-1]
    files = torch_private.interned_files()
    if is_model_file(file := files[frame["filename"]]):
        yield f"{file}:{frame['line']}", frame["loc"]
        return
    # The frame is in a torch function mode that intercepts Tensor.__bool__, for which torch reports
    # only the first branch. Then take all lines that read a value, but not those that only compute
    # with it: its symbol, such as u0, is still a number without a condition.
    for node in program.graph.nodes:
        reads = str(node.target).startswith("aten.item")
        if not reads or re.fullmatch(r"[a-z]+\d+", str(node.meta.get("val"))):
            continue
        trace = node.meta.get("stack_trace") or ""
        lines = re.findall(r'File "(.+)", line (\d+), in .+\n *(.+)', trace)
        if model_lines := [line for line in lines if is_model_file(line[0])]:
            file, number, text = model_lines[-1]
            yield f"{file}:{number}", text


def _find_operator_modules(program: ExportedProgram, operator: str) -> tuple[str, ...]:
    nodes = (node for node in program.graph.nodes if operator_name(node) == operator)
    return tuple(dict.fromkeys(map(_innermost_module, nodes)))


def _find_line_modules(program: ExportedProgram, location: str) -> tuple[str, ...]:
    file, _, line = location.rpartition(":")
    frame = f'File "{file}", line {line}, in '
    modules = [
        _innermost_module(node)
        for node in program.graph.nodes
        if frame in (node.meta.get("stack_trace") or "")
    ]
    return tuple(dict.fromkeys(modules))


def _innermost_module(node: Node) -> str:
    """Return the dotted name of the innermost module that created a node; empty for the root."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    return str(path).removeprefix("model").removeprefix(".")
