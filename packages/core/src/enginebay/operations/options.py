"""What :func:`enginebay.deploy` and its relatives take besides a model and a backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enginebay.errors import UsageError
from enginebay.exporters import ExporterName
from enginebay.ir import IRKind
from enginebay.params import Declared
from enginebay.verdict import PROBES


class ExportOptions(Declared):
    """How a model becomes an IR.

    Attributes:
        ir: Use this IR: ``onnx``, ``torchscript`` or ``exported_program``; by default the backend's
            preferred ones in order, until one works.
        exporter: The ONNX exporter: ``dynamo`` or ``torchscript``; by default the first that works.
        opset: The ONNX operator set; by default the exporter's own.
        input_names: Names of the inputs, instead of the parameter names of ``forward``.
        output_names: Names of the outputs, instead of ``output``, ``output_0`` … or the keys of the
            result.
        rewriters: Rewriters of your own.
        partition: Names of marks, or of an ONNX file's tensors, in the order of the model, to cut
            it at: it becomes one artifact with several engines that run one after the other. See
            :func:`enginebay.mark` and :func:`enginebay.marks`.
        task: What the model is for, which the artifact keeps: an :class:`enginebay.Task`, or the
            path of a JSON file with one; by default what comes with the model.
        keep_ir: Keep the IR in the artifact's folder ``ir``.

    Raises:
        ParamsError: A field is unknown, or a value does not fit.

    Example:
        >>> import enginebay as eb
        >>> eb.ExportOptions(exporter="torchscript").exporter
        'torchscript'
    """

    ir: IRKind | None = None
    exporter: ExporterName | None = None
    opset: int | None = None
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    rewriters: Sequence[Any] = ()
    partition: Sequence[Any] = ()
    task: Any = None
    keep_ir: bool = False


class VerifyOptions(Declared):
    """How an artifact is compared with its model.

    Attributes:
        probes: How many inputs of other values and sizes to verify the artifact on, at most,
            besides the example; 0 for the example alone. See ``docs/verdict.md``.
        probes_extreme: Verify on large values as well: floats around 1000, at which exponentials
            overflow, and integers beyond 2²⁴, which float32 does not hold.
        domain: ``{"image": (0, 1)}``: bounds of an input's values that the probes stay inside of.
        compare: What compares outputs that are sets: ``{"boxes,scores,labels": "detections"}``, by
            outputs the name of a comparator or a callable; the others are compared place by place.
        rtol: Replaces the relative tolerance, which follows the dtype and the precision.
        atol: Replaces the absolute tolerance.
        allow_mismatch: Publish the artifact although its numbers differ or its engine crashed.
        strict: Refuse what the engine falls back on.
        timeout: Seconds that the child processes of a conversion may take, and again those that
            load and run the engine.

    Raises:
        ParamsError: A field is unknown, or a value does not fit.
    """

    probes: int = PROBES
    probes_extreme: bool = False
    domain: dict[str, tuple[float, float]] = {}
    compare: Any = None
    rtol: float | None = None
    atol: float | None = None
    allow_mismatch: bool = False
    strict: bool = False
    timeout: float = 1800.0


def refuse_options(options: Declared, names: Sequence[str], verb: str) -> None:
    """Refuse options that only a deployment has.

    Args:
        options: The options of another verb.
        names: Those that must be at their defaults.
        verb: Its name: ``verify``.

    Raises:
        UsageError: One is not.
    """
    usual = type(options)()
    for name in names:
        if getattr(options, name) != getattr(usual, name):
            raise UsageError(
                f"{name} is an option of deploy, and {verb} has none", hint="leave it out"
            )
