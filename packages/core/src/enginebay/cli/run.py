"""``enginebay run``: run an artifact on inputs."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.cli.arguments import add_artifact, run_params
from enginebay.cli.output import print_fields, print_json, print_table, stdout_on_stderr
from enginebay.cli.run_items import (
    ItemRun,
    add_item_arguments,
    check_item_flags,
    check_weights,
    item_document,
    print_predictions,
)
from enginebay.cli.summaries import receipt_fields
from enginebay.display import human_shape
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from enginebay.artifact import Artifact
    from enginebay.inference import Receipt, Wrapper
    from enginebay.tensors import Array, NumpyArray, TensorSpec

EXAMPLES = (
    "enginebay run artifact",
    "enginebay run artifact --input x=image.npy --output outputs.npz",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = (
        "enginebay run ARTIFACT [--input NAME=SPEC] [--image FILE] [--output FILE.npz] [flags]"
    )
    add_artifact(parser)
    add_item_arguments(parser)
    parser.add_argument(
        "--within",
        choices=("warn", "raise"),
        help="warn or fail if an input lies beyond the range that was verified",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE.npz", help="write the outputs to this file"
    )


def run(args: Namespace) -> int:
    """Run the artifact once, or once for each image, and print the results; return 0."""
    from enginebay.artifact import open_artifact
    from enginebay.operations import load
    from enginebay.tensors import parse_inputs

    # A wrong path must be an error before the run, which may be long.
    if args.output:
        _check_output(args.output)
    check_item_flags(args)
    artifact = open_artifact(args.artifact)
    if args.images and not args.allow_random_weights:
        check_weights(artifact)
    arrays = parse_inputs(args.inputs)
    items = ItemRun(artifact, args.images, arrays, args.draw) if args.images else None
    params = run_params(args, artifact.backend)
    options = {"device": args.device, "strict": args.strict, "within": args.within}
    with stdout_on_stderr(), load(artifact, params=params, **options) as wrapper:
        start = time.perf_counter()
        results = list(items.run(wrapper)) if items else []
        if results:
            outputs = results[0].outputs
        else:
            outputs = wrapper(_pick_inputs(artifact, wrapper, arrays))
        seconds = time.perf_counter() - start
        receipt = wrapper.receipt
    if args.output:
        _save_outputs(args.output, outputs)
    if items and args.draw:
        items.draw(results[0], args.draw)
    if args.json:
        document = {"images": item_document(results)} if results else {}
        print_json({**document, **_to_document(outputs, receipt, seconds)})
    elif items:
        print_predictions(results)
        _print_receipt(receipt, seconds, len(results))
    else:
        _print_outputs(outputs, receipt, seconds)
    return 0


def _pick_inputs(
    artifact: Artifact, wrapper: Wrapper, arrays: Mapping[str, TensorSpec | NumpyArray]
) -> Mapping[str, Array]:
    """Return the inputs that the flags specify.

    Without flags for inputs, return the inputs of the artifact's first sample or, if the artifact
    has no samples, generated inputs.
    """
    from enginebay.tensors import inputs_for

    samples = [] if arrays else artifact.samples()
    return samples[0].inputs if samples else inputs_for(wrapper.inputs, arrays)


def _check_output(path: Path) -> None:
    """Raise an error unless the path is a .npz file in an existing folder."""
    if path.suffix != ".npz":
        raise UsageError(
            f"expected a .npz file for the outputs, found '{path}'", hint=f"--output {path}.npz"
        )
    if not path.parent.is_dir():
        raise UsageError(f"'{path}' cannot be written: the folder '{path.parent}' does not exist")


def _save_outputs(path: Path, outputs: dict[str, NumpyArray]) -> None:
    """Write the outputs to a .npz file, which ``--input`` can read."""
    from enginebay.errors import EnginebayError
    from enginebay.files import replacement
    from enginebay.tensors import save_arrays

    try:
        with replacement(path) as file:
            save_arrays(file, outputs)
    except OSError as err:
        raise EnginebayError(
            f"'{path}' cannot be written: {err.strerror}", hint="choose another --output"
        ) from err


def _describe_output(name: str, array: NumpyArray) -> dict[str, Any]:
    dtype = "string" if array.dtype == object else array.dtype.name
    row: dict[str, Any] = {"name": name, "dtype": dtype, "shape": list(array.shape)}
    figures: dict[str, Any] = dict.fromkeys(("min", "max", "mean"))
    if array.size and array.dtype.kind not in "cOSU":
        # float64 is inexact for integers from 2**53 on.
        numbers = array.astype("float64") if array.dtype.kind not in "iu" else array
        figures = {
            "min": _json_number(numbers.min().item()),
            "max": _json_number(numbers.max().item()),
            "mean": _json_number(float(numbers.mean(dtype="float64"))),
        }
    return row | figures


def _json_number(value: float) -> float | str:
    """Return a number for JSON; NaN and infinity as text, because JSON has no such numbers."""
    return value if math.isfinite(value) else str(value)


def _to_document(
    outputs: dict[str, NumpyArray], receipt: Receipt, seconds: float
) -> dict[str, object]:
    import msgspec

    described = [_describe_output(name, array) for name, array in outputs.items()]
    return {"outputs": described, "seconds": seconds, "receipt": msgspec.to_builtins(receipt)}


def _print_outputs(outputs: dict[str, NumpyArray], receipt: Receipt, seconds: float) -> None:
    rows = [_describe_output(name, array) for name, array in outputs.items()]
    print_table(
        ("OUTPUT", "DTYPE", "SHAPE", "MIN", "MAX", "MEAN"),
        [
            (
                row["name"],
                row["dtype"],
                human_shape(tuple(row["shape"])),
                *(_format_number(row[key]) for key in ("min", "max", "mean")),
            )
            for row in rows
        ],
        right=("MIN", "MAX", "MEAN"),
    )
    _print_receipt(receipt, seconds)


def _print_receipt(receipt: Receipt, seconds: float, calls: int = 1) -> None:
    extent = "the first call" if calls == 1 else f"{calls} calls"
    print_fields((*receipt_fields(receipt), ("seconds", f"{seconds:.4f} for {extent}")))


def _format_number(value: float | str | None) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
