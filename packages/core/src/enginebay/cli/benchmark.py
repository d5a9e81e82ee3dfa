"""``enginebay benchmark ARTIFACT``: measure how fast it runs on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.cli.arguments import add_artifact
from enginebay.cli.output import print_fields, print_json, print_table, stdout_on_stderr
from enginebay.cli.summaries import receipt_fields

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from enginebay.inference import Latency
    from enginebay.operations import Benchmark

_RIGHT = ("MEDIAN", "95 % INTERVAL", "P90", "P99", "MIN", "MAX", "RUNS")
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = "enginebay benchmark ARTIFACT [--input NAME=SPEC] [--seconds N] [flags]"
    add_artifact(parser)
    parser.add_argument(
        "--seconds",
        type=float,
        default=3.0,
        metavar="N",
        help="how long to measure, after a warm-up of a tenth of it (default: 3)",
    )


def run(args: Namespace) -> int:
    """Measure, and print the figures."""
    from enginebay.artifact import open_artifact
    from enginebay.operations import benchmark
    from enginebay.tensors import inputs_for, parse_inputs

    artifact = open_artifact(args.artifact)
    given = parse_inputs(args.inputs)
    with stdout_on_stderr():
        measured = benchmark(
            artifact,
            inputs_for(artifact.inputs, given) if given else None,
            seconds=args.seconds,
            device=args.device,
            strict=args.strict,
        )
    if args.json:
        print_json(_document(measured))
    else:
        _print(measured)
    return 0


def _document(measured: Benchmark) -> dict[str, Any]:
    import msgspec

    return {
        "load": measured.load,
        "first": measured.first,
        "call": measured.call._asdict(),
        "engine": measured.engine._asdict(),
        "throughput": measured.throughput,
        "receipt": msgspec.to_builtins(measured.receipt),
        "notes": list(measured.notes),
    }


def _print(measured: Benchmark) -> None:
    size, unit = next(
        ((size, unit) for size, unit in _UNITS if measured.call.median >= size), _UNITS[-1]
    )
    print_table(
        (f"IN {unit}", *_RIGHT),
        [("call", *_row(measured.call, size)), ("engine", *_row(measured.engine, size))],
        right=_RIGHT,
    )
    print_fields(
        (
            ("rate", f"{measured.throughput:.4g} calls/s, one after the other"),
            ("load", f"{measured.load:.3g} s, then {measured.first:.3g} s for the first call"),
            *receipt_fields(measured.receipt),
            *(("note", note) for note in measured.notes),
        )
    )


def _row(latency: Latency, size: float) -> tuple[str, ...]:
    names = ("median", "low", "high", "p90", "p99", "min", "max")
    median, low, high, *rest = (f"{getattr(latency, name) / size:.4g}" for name in names)
    return median, f"{low}–{high}", *rest, str(latency.runs)
