"""Summaries that several commands print: of a verdict, a receipt, an artifact, an IR."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.cli.output import print_fields, print_labelled, print_table, short_path, styled
from enginebay.display import human_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.artifact import Artifact
    from enginebay.inference import Receipt
    from enginebay.ir import IRModel
    from enginebay.tensors import TensorSpec
    from enginebay.verdict import OutputComparison, Verification

#: Names in a line; --json has them all.
_SHOWN = 6

_COLOURS = {"verified": "green", "unverified": "yellow"}


def verdict_word(verdict: str) -> str:
    """Return a verdict as a terminal shows it: green, yellow or red."""
    return styled(verdict, _COLOURS.get(verdict, "red"), sys.stdout)


def verdict_text(verification: Verification) -> str:
    """Return the verdict, its reference and the number of samples; or the reason for none.

    Example:
        >>> from enginebay.verdict import Verification
        >>> verdict_text(Verification.unverified("nothing to compare with"))
        'unverified: nothing to compare with'
    """
    verdict = verdict_word(verification.verdict)
    if verification.reason:
        return f"{verdict}: {verification.reason}"
    return f"{verdict} against {verification.reference} on {verification.extent()}"


def basis_fields(verification: Verification) -> list[tuple[str, str]]:
    """Return what limits the verdict, what comparators found, and likely causes of a mismatch."""
    dropped = verification.basis.dropped if verification.basis else ()
    return [
        *(("warning", styled(text, "yellow", sys.stdout)) for text in verification.warnings),
        *(("compared", matching.describe()) for matching in verification.matchings),
        *(("signal", signal.describe()) for signal in verification.signals if signal.passed),
        *(("cause", text) for text in verification.causes()),
        *(("left out", text) for text in dropped),
    ]


@contextmanager
def quiet_verdict() -> Iterator[None]:
    """Let nothing warn of what :func:`basis_fields` shows."""
    from enginebay.verdict import VerdictWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VerdictWarning)
        yield


def sizes_text(inputs: Sequence[TensorSpec]) -> str:
    """Which sizes of the inputs are open; of none, that all are fixed, and how to open one.

    Example:
        >>> from enginebay.tensors import TensorSpec
        >>> sizes_text([TensorSpec("x", "float32", ("batch", 3))])
        'open: x[batch, 3]'
        >>> sizes_text([TensorSpec("x", "float32", (1, 3))])
        'all fixed; --dynamic batch opens the first dimension of the inputs'
    """
    opened = [
        f"{spec.name}[{', '.join(map(str, spec.dims or ()))}]"
        for spec in inputs
        if not spec.is_static
    ]
    if opened:
        return f"open: {join_names(opened)}"
    return "all fixed; --dynamic batch opens the first dimension of the inputs"


def weights_text(weights: str) -> str:
    """Where the weights come from; of random ones, what that means and what to type."""
    from enginebay.models import RANDOM_WEIGHTS

    if weights != RANDOM_WEIGHTS:
        return weights
    text = f"{weights}: its answers mean nothing; --pretrained or --weights FILE brings others"
    return styled(text, "yellow", sys.stdout)


def print_outputs(verification: Verification) -> None:
    """Print a row for each output that was compared, and a line for each that differs.

    The figures of a simulation stand below a line that says whose they are.
    """
    _print_compared(verification.outputs)
    if simulation := verification.simulation:
        count = f"{simulation.samples} sample{'' if simulation.samples == 1 else 's'}"
        sys.stdout.write("\n" if verification.outputs else "")
        print_labelled(
            "",
            f"The graph that the engine is built from, run by {simulation.engine} on {count}; the "
            "engine itself gave none of these figures:",
        )
        _print_compared(simulation.outputs)


def _print_compared(outputs: Sequence[OutputComparison]) -> None:
    if not outputs:
        return
    print_table(
        ("OUTPUT", "DTYPE", "SHAPE", "MAX ERROR", "RTOL", "ATOL", "RESULT"),
        [
            (
                output.name,
                output.dtype,
                shape_text(output.shape),
                "-" if output.max_abs_error is None else f"{output.max_abs_error:.3g}",
                f"{output.rtol:.3g}",
                f"{output.atol:.3g}",
                _result(output),
            )
            for output in outputs
        ],
        right=("MAX ERROR", "RTOL", "ATOL"),
    )
    for output in outputs:
        if not output.passed and output.worst_index is not None:
            print_labelled("worst in ", output.describe())


def _result(output: OutputComparison) -> str:
    if output.passed:
        return f"ok, {output.reason}" if output.reason else "ok"
    if output.mismatched_count:
        return f"{output.mismatched_count} of {output.total} differ"
    return output.reason or "differs"


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as it is typed.

    Example:
        >>> shape_text((1, 3)), shape_text(())
        ('1x3', 'scalar')
    """
    return "x".join(map(str, shape)) or "scalar"


def engine_text(receipt: Receipt | None) -> str:
    """Return the engine, its device and its precision; an empty text where nothing ran."""
    if receipt is None:
        return ""
    return f"{receipt.engine} on {receipt.provider or receipt.device}, {receipt.precision}"


def receipt_fields(receipt: Receipt | None) -> list[tuple[str, str]]:
    """Return what ran, and what it fell back on."""
    fallbacks = receipt.fallbacks if receipt else ()
    return [("engine", engine_text(receipt)), *(("fallback", text) for text in fallbacks)]


def artifact_text(artifact: Artifact) -> str:
    """Return the folder, the number of files in it, and their size together."""
    files = artifact.manifest.files
    count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    return f"{short_path(artifact.path)} ({count}, {human_size(sum(f.size for f in files))})"


def artifact_document(artifact: Artifact) -> dict[str, Any]:
    """Return an artifact as plain JSON values."""
    import msgspec

    return {
        "kind": "artifact",
        "artifact": str(artifact.path),
        "manifest": msgspec.to_builtins(artifact.manifest),
    }


def ir_document(model: IRModel) -> dict[str, Any]:
    """Return an IR as plain JSON values."""
    import msgspec

    described: dict[str, Any] = msgspec.to_builtins(model, enc_hook=str)  # paths
    return {"ir": {**described, "sha256": model.digest()}}


def print_ir(model: IRModel) -> None:
    """Describe an IR on stdout."""
    opset = f", opset {model.opset}" if model.opset else ""
    print_fields(
        (
            ("ir", model.kind + (f" by {model.exporter}" if model.exporter else "") + opset),
            *(("file", f"{short_path(f)} ({human_size(f.stat().st_size)})") for f in model.files),
            ("sha256", model.digest()),
            *(("input", spec.describe()) for spec in model.inputs),
            *(("output", spec.describe()) for spec in model.outputs),
            *(("note", note) for note in model.notes),
        )
    )


def join_names(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are.

    Example:
        >>> join_names([f"conv_{number}" for number in range(8)])
        'conv_0, conv_1, conv_2, conv_3, conv_4, conv_5 and 2 more'
    """
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest
