"""Options of export and verification, for :func:`enginebay.deploy` and similar functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta

from enginebay.errors import UsageError
from enginebay.ir import ExporterName
from enginebay.params import Declared, IRKind
from enginebay.verdict import PROBES

Options = TypeVar("Options", bound=Declared)


class ExportOptions(Declared):
    """Options of the export of a model to an IR.

    Attributes:
        ir: The IR to export; by default the backend's IRs are tried in order of preference.
        exporter: The ONNX exporter; by default dynamo, or torchscript if dynamo fails.
        opset: The version of the ONNX operator set, at least 7; by default the exporter's default.
        input_names: Names of the inputs, instead of the parameter names of ``forward``.
        output_names: Names of the outputs, instead of ``output``, ``output_0`` … or the keys of the
            result.
        rewriters: Additional rewriter sets; as text ``file.py:attr`` or ``module:attr``, where attr
            is a set or a list of sets.
        cuts: Names of the tensors at which the model is divided into parts, in the order of the
            computation: names from ``enginebay.mark`` or ``enginebay.marks``, or tensors of an ONNX
            file. The artifact contains one engine for each part.
        task: The model's task, which is stored in the artifact: a plugin's object, a dict as under
            'task' in a manifest, or the path of a JSON file with such a dict; by default the task
            that the model source provides.
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
        reference: A PyTorch model to compare with, in any form that ``deploy`` accepts, instead of
            the deployed model itself: an ONNX file is then verified against the model that it was
            exported from, at the sizes that are dynamic in the file. Its inputs and outputs have
            the names of the file's, or are in the same order.
        probes: Maximum number of probe inputs (generated, similar to the example) to verify on;
            with 0, only the example is used. ``thorough`` spends ten times as much on combinations
            of values and sizes, and on the search for decisions that no sample takes.
        probes_extreme: Also verify on large values: floats around 1000, at which exponentials
            overflow, and integers beyond 2²⁴, which float32 cannot represent.
        domain: Lower and upper bound of an input's values in probe inputs, such as ``image=0,1``;
            in Python ``{"image": (0, 1)}``.
        compare: Comparators of outputs that are sets, such as ``logits=top-k:5``, ``indices=set``
            (rows in any order), ``file.py:attr``, ``module:attr`` or ``SCHEME:ARGUMENT`` of a
            plugin: ``boxes,scores,labels=detections:0.5``; in Python ``{"indices": "set"}``, or a
            callable. By default the comparators that the artifact was verified with; other outputs
            are compared element by element.
        rtol: Relative tolerance, instead of the default for the dtype and the precision.
        atol: Absolute tolerance, instead of the default for the dtype and the precision.
        allow_mismatch: Publish the artifact even if the outputs differ or the engine crashed.
        allow_unverified: Publish the artifact even if the outputs could not be verified. This is
            not required for an engine that is built for other machines.
        strict: Fail if the engine uses a fallback.
        timeout: Time limit in seconds for the child processes that convert the model, and
            separately for the child processes that load and run the engine. A run of the model
            itself may take as much processor time.

    Raises:
        ParamsError: A field is unknown, or a value is invalid.
    """

    reference: Any = None
    probes: int | Literal["thorough"] = PROBES
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
        *("probes_extreme", "reference", "strict", "task"),
    )
)


def merge_options(options: Options, below: Options) -> Options:
    """Return a copy of ``options`` that takes the fields with default values from ``below``."""
    defaults = type(options)()
    values = {name: getattr(options, name) for name in options.__struct_fields__}
    changed = {name: value for name, value in values.items() if value != getattr(defaults, name)}
    return below.replace(**changed)


def refuse_options(options: Declared, verb: str) -> None:
    """Raise an error if options that only ``deploy`` supports are passed to another function.

    Args:
        options: The options with which the function was called.
        verb: The function's name, such as ``verify``.

    Raises:
        UsageError: An option that only ``deploy`` supports does not have its default value.
    """
    defaults = type(options)()
    for name in defaults.__struct_fields__:
        if name in ONLY_OF_DEPLOY and getattr(options, name) != getattr(defaults, name):
            raise UsageError(f"'{name}' is an option of deploy, not {verb}", hint=f"remove {name}")
