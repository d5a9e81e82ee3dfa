"""A draft of a model in ONNX, with everything in its way listed instead of the first of it.

``torch.export.draft_export`` runs the model on its real inputs, so that it goes on where
``torch.export.export`` stops; the operators without a translation become placeholders.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.exporters.export_job import Written, writing
from enginebay.exporters.exporter_choice import ExportSource
from enginebay.exporters.ir_files import placed
from enginebay.exporters.program_capture import torch_dims
from enginebay.ir import IRModel, describe, is_model_file, quiet, read_onnx

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from torch import Tensor, nn

    from enginebay.exporters.export_job import Job
    from enginebay.exporters.exporter_choice import Patch
    from enginebay.models import BoundModel


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """Something that stands between a model and an engine.

    Attributes:
        operator: The operator, such as ``aten::sort`` or ``my.ops::Wibble``; for a decision by a
            tensor's values, the line of Python.
        modules: The modules that use it, by their paths in the model, such as ``body.l``.
        reason: Why it cannot go through, in a few words.
        rewriter: A rewriter or lowering that would replace it, and when; empty where none is known.
    """

    operator: str
    modules: tuple[str, ...]
    reason: str
    rewriter: str = ""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A draft: the file, and what is not right about it.

    Attributes:
        ir: The ONNX file; its operators of ``PLACEHOLDER_DOMAIN`` are among the obstacles.
        obstacles: What torch.export and the exporter cannot do.
    """

    ir: IRModel
    obstacles: tuple[Obstacle, ...]


def write_draft(
    model: BoundModel, path: Path, *, patch: Patch, translated: Callable[[], Collection[str]]
) -> Draft:
    """Write a draft of a model.

    Args:
        model: The model with its inputs bound.
        path: The ONNX file.
        patch: The rewriters, as :func:`enginebay.exporters.write_ir` takes them.
        translated: Called while they are active: the operators that symbolics of theirs translate.

    Raises:
        ExportError: The file cannot be written.
    """
    obstacles: list[Obstacle] = []

    def export(job: Job) -> Written:
        return _export(job, translated(), obstacles)

    task = ExportSource(model, None, patch)
    ir = placed(path, "onnx", lambda target: task.attempt("the default exporter", export, target))
    return Draft(ir=ir, obstacles=tuple(merged(obstacles)))


def merged(obstacles: Iterable[Obstacle]) -> Iterator[Obstacle]:
    """Yield one obstacle for each operator, with all its reasons and all modules that use it."""
    groups: dict[str, list[Obstacle]] = {}
    for one in obstacles:
        groups.setdefault(one.operator, []).append(one)
    for operator, group in groups.items():
        yield Obstacle(
            operator=operator,
            modules=tuple(dict.fromkeys(path for one in group for path in one.modules)),
            reason="; ".join(dict.fromkeys(one.reason for one in group)),
            rewriter=group[0].rewriter,
        )


def _export(job: Job, translated: Collection[str], obstacles: list[Obstacle]) -> Written:
    import torch
    from torch._library.fake_profile import unsafe_generate_fake_kernels

    from enginebay.rewriting import find_untranslated, placeholder_translations

    with quiet():
        with _parameters_as_buffers(job.flat):
            program = torch.export.draft_export(
                job.flat, job.tensors, dynamic_shapes=(torch_dims(job),) if job.dynamic else None
            )
        report: Any = program._report  # type: ignore[attr-defined]  # draft_export adds it
        obstacles += _capture_obstacles(program, report)
        # Of oneDNN's recurrent layers torch's shapes are not those of a run.
        tolerant = torch._functorch.config.patch(generate_fake_kernels_from_real_mismatches=True)
        with unsafe_generate_fake_kernels(report.op_profiles), tolerant:
            missing = find_untranslated(program, translated)
            obstacles += [
                Obstacle(
                    operator=node.target._schema.name,  # type: ignore[union-attr]  # of call_function
                    modules=(_module(node),),
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
                custom_translation_table=placeholder_translations(missing),
            )
        assert written is not None
        written.model.metadata_props.update(describe((), (), job.example_shapes))
        with writing(job.target):
            written.save(job.target)
    described = read_onnx(job.target)
    return Written("torch.export draft", described.inputs, described.outputs, described.opset)


@contextmanager
def _parameters_as_buffers(model: nn.Module) -> Iterator[None]:
    """Show torch the model's parameters as buffers.

    ``draft_export`` runs the model on copies of its tensors, but copies a ``Parameter``'s size and
    not its values: what decides by values would see memory that nobody wrote.
    """
    plain: dict[nn.Parameter, Tensor] = {}  # shared parameters stay shared
    before = [(one, dict(one._parameters), dict(one._buffers)) for one in model.modules()]
    try:
        for module, parameters, _ in before:
            for name, parameter in parameters.items():
                if parameter is not None:
                    del module._parameters[name]
                    module._buffers[name] = plain.setdefault(parameter, parameter.detach())
        yield
    finally:
        for module, parameters, buffers in before:
            _refill(module._parameters, parameters)
            _refill(module._buffers, buffers)


def _refill(mapping: dict[str, Any], values: dict[str, Any]) -> None:
    mapping.clear()
    mapping.update(values)


def _capture_obstacles(program: Any, report: Any) -> Iterator[Obstacle]:
    """Yield what torch.export could not do but by running the model."""
    from torch.export._draft_export import FailureType

    for failure in report.failures:
        data = failure.data
        if failure.failure_type is FailureType.DATA_DEPENDENT_ERROR:
            place, line = _decision(program, data, report.str_to_filename)
            yield Obstacle(
                operator=line,
                modules=_modules_at(program, place),
                reason=f"torch.export cannot decide by values, at {Path(place).name}",
            )
        elif failure.failure_type is not FailureType.GUARD_ADDED:
            missing = failure.failure_type is FailureType.MISSING_FAKE_KERNEL
            text = "no fake kernel" if missing else "a fake kernel that differs from the real one"
            name = data["op"].rpartition(".")[0].replace(".", "::", 1)
            yield Obstacle(
                operator=name,
                modules=_modules_of(program, name),
                reason=f"{text}, which torch.export needs",
            )


def _decision(program: Any, data: Any, files: Mapping[int, str]) -> tuple[str, str]:
    """The place and the text of the line that decides by values."""
    frame = data["user_stack"][-1]
    found = [(files[frame["filename"]], frame["line"], frame["loc"])]
    if not is_model_file(found[0][0]):  # a mode's, which sees Tensor.__bool__: ask for the value
        symbols = re.findall(r"\w+", data["expr"])
        traces = [
            node.meta.get("stack_trace") or ""
            for node in program.graph.nodes
            if str(node.meta.get("val")) in symbols
        ]
        lines = re.findall(r'File "(.+)", line (\d+), in .+\n *(.+)', "\n".join(traces))
        found += [line for line in lines if is_model_file(line[0])]
    file, number, text = found[-1]
    return f"{file}:{number}", text


def _modules_of(program: Any, operator: str) -> tuple[str, ...]:
    from enginebay.rewriting import operator_name

    nodes = (node for node in program.graph.nodes if operator_name(node) == operator)
    return tuple(dict.fromkeys(map(_module, nodes)))


def _modules_at(program: Any, place: str) -> tuple[str, ...]:
    """The modules whose code is at a line: those of the nodes that it made."""
    file, _, line = place.rpartition(":")
    text = f'File "{file}", line {line}, in '
    found = [
        _module(node)
        for node in program.graph.nodes
        if text in (node.meta.get("stack_trace") or "")
    ]
    return tuple(dict.fromkeys(found))


def _module(node: Any) -> str:
    """The path of the innermost module that a node comes from, in the caller's model."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    return str(path).removeprefix("model").removeprefix(".")
