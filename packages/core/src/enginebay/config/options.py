"""What :func:`enginebay.deploy` and its relatives take besides a model and a backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from enginebay.errors import UsageError
from enginebay.ir import ExporterName, IRKind
from enginebay.params import Declared
from enginebay.verdict import PROBES

Options = TypeVar("Options", bound=Declared)


class ExportOptions(Declared):
    """How a model becomes an IR.

    Attributes:
        ir: The IR; by default the backend's preferred ones in order, until one works.
        exporter: The ONNX exporter; by default dynamo, and torchscript where that fails.
        opset: The ONNX operator set, from 7 on; by default the exporter's own.
        input_names: Names of the inputs, instead of the parameter names of ``forward``.
        output_names: Names of the outputs, instead of ``output``, ``output_0`` … or the keys of the
            result.
        rewriters: Rewriter sets of your own; as text ``file.py:attr`` or ``module:attr``, where
            attr is a set or a list of them.
        cuts: Names of marks in the model, or of an ONNX file's tensors, in the order of the model:
            it becomes one artifact with several engines that run one after the other.
        task: What the model is for, which the artifact keeps: the path of a JSON file with what a
            manifest has under 'task', such data, or a plugin's object; by default what comes with
            the model.
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
    opset: Annotated[int, Meta(ge=7)] | None = None  # the oldest that torch's exporters list
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    rewriters: Sequence[Any] = ()
    cuts: Sequence[Any] = ()
    task: Any = None
    keep_ir: bool = False


class VerifyOptions(Declared):
    """How an artifact is compared with its model.

    Attributes:
        probes: Verify on at most so many inputs of other values and sizes, besides the example; 0
            for the example alone.
        probes_extreme: Verify on large values as well: floats around 1000, at which exponentials
            overflow, and integers beyond 2²⁴, which float32 does not hold.
        domain: Bounds of an input's values that the probes stay inside of, such as ``image=0,1``:
            in Python ``{"image": (0, 1)}``.
        compare: What compares outputs that are sets, such as ``logits=top-k:5``, ``indices=set``
            (rows in any order), ``file.py:attr``, ``module:attr`` or ``SCHEME:ARGUMENT`` of a
            plugin: ``boxes,scores,labels=detections:0.5``; in Python ``{"indices": "set"}``, or a
            callable. By default what the artifact was verified with, else each output place by
            place.
        rtol: Replaces the relative tolerance, which follows the dtype and the precision.
        atol: Replaces the absolute tolerance.
        allow_mismatch: Publish the artifact although its numbers differ or its engine crashed.
        allow_unverified: Publish the artifact although nothing shows that its numbers are right.
            An engine that is built for other machines is published without this.
        strict: Refuse what the engine falls back on.
        timeout: Seconds that the child processes of a conversion may take, and again those that
            load and run the engine.

    Raises:
        ParamsError: A field is unknown, or a value does not fit.
    """

    probes: int = PROBES
    probes_extreme: bool = False
    domain: dict[str, tuple[float, float]] = {}
    compare: Mapping[Any, Any] | None = None
    rtol: float | None = None
    atol: float | None = None
    allow_mismatch: bool = False
    allow_unverified: bool = False
    strict: bool = False
    timeout: float = 1800.0


#: The sections of a config that hold them.
OPTIONS: dict[str, type[ExportOptions | VerifyOptions]] = {
    "export_config": ExportOptions,
    "verify_config": VerifyOptions,
}

#: Options that only a deployment has: what is published, and which samples it is verified on.
ONLY_OF_DEPLOY = frozenset(
    (
        *("allow_mismatch", "allow_unverified", "cuts", "domain", "keep_ir", "probes"),
        *("probes_extreme", "strict", "task"),
    )
)


def merge_options(options: Options, below: Options) -> Options:
    """Return ``options``, with those of ``below`` in the place of what is at its default."""
    usual = type(options)()
    names = options.__struct_fields__
    given = {name: getattr(options, name) for name in names}
    changed = {name: value for name, value in given.items() if value != getattr(usual, name)}
    return below.replace(**changed)


def refuse_options(options: Declared, verb: str) -> None:
    """Refuse options that only a deployment has.

    Args:
        options: The options of another verb, where these must be at their defaults.
        verb: Its name: ``verify``.

    Raises:
        UsageError: One is not.
    """
    usual = type(options)()
    for name in usual.__struct_fields__:
        if name in ONLY_OF_DEPLOY and getattr(options, name) != getattr(usual, name):
            raise UsageError(
                f"{name} is an option of deploy, and {verb} has none", hint="leave it out"
            )
