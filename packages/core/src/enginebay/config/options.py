"""Options of export and verification, for :func:`enginebay.deploy` and the other verbs."""

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
    """Options of the export of a model to an IR.

    Attributes:
        ir: The IR; by default the backend's preferred ones in order, until one works.
        exporter: The ONNX exporter; by default dynamo, or torchscript if dynamo fails.
        opset: The ONNX operator set, from 7 on; by default the exporter's own.
        input_names: Names of the inputs, instead of the parameter names of ``forward``.
        output_names: Names of the outputs, instead of ``output``, ``output_0`` … or the keys of the
            result.
        rewriters: Additional rewriter sets; as text ``file.py:attr`` or ``module:attr``, where attr
            is a set or a list of sets.
        cuts: Names of marks in the model, or of an ONNX file's tensors, in the order of the model:
            the artifact gets one engine for each part, and runs them one after the other.
        task: The model's task, which the artifact stores: a plugin's object, a dict as under 'task'
            in a manifest, or the path of a JSON file with this dict; by default the task that the
            model source provides.
        keep_ir: Store the IR in the artifact's folder ``ir``.

    Raises:
        ParamsError: A field is unknown, or a value is invalid.

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
    """Options for the comparison of an artifact with its model.

    Attributes:
        probes: Largest number of additional inputs to verify on, with other values and sizes; 0
            verifies on the example alone.
        probes_extreme: Also verify on large values: floats around 1000, at which exponentials
            overflow, and integers beyond 2²⁴, which float32 cannot represent.
        domain: Lower and upper bound of an input's values in probes, such as ``image=0,1``: in
            Python ``{"image": (0, 1)}``.
        compare: Comparators of outputs that are sets, such as ``logits=top-k:5``, ``indices=set``
            (rows in any order), ``file.py:attr``, ``module:attr`` or ``SCHEME:ARGUMENT`` of a
            plugin: ``boxes,scores,labels=detections:0.5``; in Python ``{"indices": "set"}``, or a
            callable. By default the comparators that the artifact was verified with; other outputs
            are compared element by element.
        rtol: Relative tolerance, instead of the default for the dtype and the precision.
        atol: Absolute tolerance, instead of the default for the dtype and the precision.
        allow_mismatch: Publish the artifact even if its numbers differ or its engine crashed.
        allow_unverified: Publish the artifact even if its numbers could not be verified. An engine
            that is built for other machines does not need this.
        strict: Fail if the engine uses a fallback.
        timeout: Time limit in seconds for the child processes of a conversion, and again for those
            that load and run the engine.

    Raises:
        ParamsError: A field is unknown, or a value is invalid.
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


#: The config's sections with these options.
OPTIONS: dict[str, type[ExportOptions | VerifyOptions]] = {
    "export_config": ExportOptions,
    "verify_config": VerifyOptions,
}

#: Options of deploy alone: about publishing, and about the samples to verify on.
ONLY_OF_DEPLOY = frozenset(
    (
        *("allow_mismatch", "allow_unverified", "cuts", "domain", "keep_ir", "probes"),
        *("probes_extreme", "strict", "task"),
    )
)


def merge_options(options: Options, below: Options) -> Options:
    """Return ``options``, with values from ``below`` in the fields that are at their default."""
    defaults = type(options)()
    values = {name: getattr(options, name) for name in options.__struct_fields__}
    changed = {name: value for name, value in values.items() if value != getattr(defaults, name)}
    return below.replace(**changed)


def refuse_options(options: Declared, verb: str) -> None:
    """Raise an error if a verb other than deploy gets an option that only deploy has.

    Args:
        options: The options that the verb was called with.
        verb: The verb's name: ``verify``.

    Raises:
        UsageError: An option that only deploy has is not at its default.
    """
    defaults = type(options)()
    for name in defaults.__struct_fields__:
        if name in ONLY_OF_DEPLOY and getattr(options, name) != getattr(defaults, name):
            raise UsageError(f"{name} is an option of deploy, not of {verb}", hint=f"remove {name}")
