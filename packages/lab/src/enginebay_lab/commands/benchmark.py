"""``enginebay benchmark``: measure how fast artifacts are here, side by side and beside PyTorch."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    MODEL_HELP,
    add_inputs,
    add_run_flags,
    human_number,
    human_seconds,
    human_size,
    join_names,
    print_fields,
    print_table,
    receipt_fields,
    repeatable_command,
    stdout_on_stderr,
)
from enginebay.errors import UsageError
from enginebay_lab.commands.results import add_report, check_report, exit_code, show

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator

    from enginebay.authors import Latency
    from enginebay_lab.measurement.benchmark_rows import Benchmark, BenchmarkRow, Ratio

EXAMPLES = (
    "enginebay benchmark artifact",
    "enginebay benchmark fp32 int8 --against pytorch",
)

_ONE = ("MEDIAN", "95 % INTERVAL", "P90", "P99", "MIN", "MAX", "RUNS")
_SEVERAL = ("BATCH", "THREADS", "CALL", "ENGINE", "P90", "P99", "ITEMS/S", "MEMORY", "SPEED")


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = (
        "enginebay benchmark ARTIFACT [ARTIFACT …] [--against pytorch] [--batch N,N] "
        "[--threads N,N] [flags]"
    )
    parser.add_argument("artifacts", metavar="ARTIFACT", nargs="+", type=Path)
    parser.add_argument(
        "--against",
        choices=("pytorch",),
        help="measure the model in PyTorch too, and compare the artifacts with it (default: "
        "compare them with the first one)",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="for --against (default: the one that an artifact was deployed from): " + MODEL_HELP,
    )
    parser.add_argument(
        "--batch",
        type=_numbers,
        default=(),
        metavar="N,N",
        help="measure at these sizes of the batch (default: the inputs as they are)",
    )
    parser.add_argument(
        "--threads",
        type=_numbers,
        default=(1,),
        metavar="N,N",
        help="call from so many threads at once (default: 1)",
    )
    parser.add_argument(
        "--layers",
        action="store_true",
        help="time each layer too, with the engine's own profiler where it has one",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        metavar="N",
        help="how long a row may take; it ends once its windows agree (default: 10)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=1800.0,
        metavar="SECONDS",
        help="limit for loading, and for each window (default: 1800)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write windows and rows to this file as they come, as lines of JSON",
    )
    add_inputs(parser, "the first that the first artifact was verified with, else made up")
    add_run_flags(parser)
    add_report(parser)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise UsageError(f"'{text}' is no list of numbers", hint="write them as 1,8") from None


def run(args: Namespace) -> int:
    """Measure, and print the figures; a row without any fails the command with exit code 1."""
    import msgspec

    from enginebay import open_artifact
    from enginebay.authors import inputs_for, parse_inputs
    from enginebay.commands import progress
    from enginebay_lab.measurement.benchmark_artifact import benchmark

    check_report(args, *args.artifacts)
    first = open_artifact(args.artifacts[0])
    given = parse_inputs(args.inputs)
    model = args.model
    if args.against and model is None:
        model = _deployed_model(args.artifacts)
    with progress() as watch, stdout_on_stderr():
        measured = benchmark(
            args.artifacts,
            inputs_for(first.inputs, given) if given else None,
            against=args.against,
            model=model,
            seconds=args.seconds,
            batch=args.batch,
            threads=args.threads,
            layers=args.layers,
            device=args.device,
            strict=args.strict,
            timeout=args.timeout,
            output=args.output,
            watch=watch,
        )
    measured = msgspec.structs.replace(measured, command=repeatable_command(args.argv))
    show(args, measured, _print)
    return exit_code(dict.fromkeys(measured.failures))


def _deployed_model(artifacts: list[Path]) -> str:
    """The model that one of the artifacts was made from, if it is there."""
    from enginebay import open_artifact

    for artifact in artifacts:
        opened = open_artifact(artifact)
        with suppress(UsageError):  # it names none, or one that has gone
            return opened.named_model()
    raise UsageError(
        "there is no PyTorch model to compare with: no artifact names one that is still there",
        hint="name it: --model MODEL",
    )


def _print(measured: Benchmark) -> None:
    if len(measured.rows) == 1:
        _print_row(measured.rows[0], measured.notes)
    else:
        _print_rows(measured)
    for row in measured.rows:
        if row.layers:
            _print_layers(row)


def _print_layers(row: BenchmarkRow) -> None:
    """Print a row's layers in the order in which they run."""
    sys.stdout.write(f"\nlayers of {_named(row)}\n")
    print_table(
        ("LAYER", "OPERATOR", "TIME", "SHARE", "NODES", "MODULE"),
        [
            (
                layer.name,
                layer.operator or "-",
                human_seconds(layer.seconds),
                f"{layer.share:.1%}",
                join_names(layer.nodes) or "-",
                join_names([module or "(the model)" for module in layer.modules]) or "-",
            )
            for layer in row.layers
        ],
        right=("TIME", "SHARE"),
    )


def _print_row(row: BenchmarkRow, notes: Iterable[str]) -> None:
    """Print all that is known of an only row."""
    if row.call and row.engine:
        cells = [("call", *_figures(row.call)), ("engine", *_figures(row.engine))]
        print_table(("", *_ONE), cells, right=_ONE)
    print_fields(
        (
            ("rate", _rate(row)),
            ("load", _load(row)),
            ("memory", _memory(row)),
            ("windows", row.agreement.describe() if row.agreement else ""),
            *receipt_fields(row.receipt),
            *(("note", note) for note in (*row.notes, *notes)),
        )
    )


def _figures(latency: Latency) -> Iterator[str]:
    yield human_seconds(latency.median)
    yield f"{human_seconds(latency.low)} – {human_seconds(latency.high)}"
    for name in ("p90", "p99", "min", "max"):
        yield _seconds(getattr(latency, name))
    yield f"{latency.runs:,}"


def _rate(row: BenchmarkRow) -> str:
    if row.calls_per_second is None or row.items_per_second is None:
        return ""
    order = "one after the other" if row.threads == 1 else f"from {row.threads} threads at once"
    items = f", {human_number(row.items_per_second)} items/s" if row.batch > 1 else ""
    return f"{human_number(row.calls_per_second)} calls/s{items}, {order}"


def _load(row: BenchmarkRow) -> str:
    if row.load is None or row.first is None:
        return ""
    return f"{human_seconds(row.load)}, then {human_seconds(row.first)} for the first call"


def _memory(row: BenchmarkRow) -> str:
    if row.peak_memory is None or row.bare_memory is None:
        return ""
    above = human_size(row.peak_memory - row.bare_memory)
    return f"{human_size(row.peak_memory)} at most, {above} above the process without it"


def _print_rows(measured: Benchmark) -> None:
    """Print a line for each row, and below them what limits it."""
    several = [
        name
        for name, count in (("BATCH", "batch"), ("THREADS", "threads"))
        if len({getattr(row, count) for row in measured.rows}) > 1
    ]
    hidden = {"BATCH", "THREADS"} - set(several)
    columns = [name for name in _SEVERAL if name not in hidden]
    print_table(
        ("ARTIFACT", *columns, "AGREED"),
        [
            (row.name, *(_cells(row)[name] for name in columns), _agreed(row))
            for row in measured.rows
        ],
        right=(*columns, "AGREED"),
    )
    print_fields(("note", note) for note in _notes(measured))


def _notes(measured: Benchmark) -> Iterator[str]:
    if measured.baseline:
        yield f"SPEED is beside '{measured.baseline}', with its 95 % interval, where both agreed"
    for row in measured.rows:
        for note in (*row.notes, *(row.receipt.fallbacks if row.receipt else ())):
            yield f"{_named(row)}: {note}"
    yield from measured.notes


def _named(row: BenchmarkRow) -> str:
    batch = f", batch {row.batch}" if row.batch > 1 else ""
    return f"'{row.name}'{batch}{f', {row.threads} threads' if row.threads > 1 else ''}"


def _cells(row: BenchmarkRow) -> dict[str, str]:
    items, peak, ratio = row.items_per_second, row.peak_memory, row.ratio
    return {
        "BATCH": str(row.batch),
        "THREADS": str(row.threads),
        "CALL": _seconds(row.call.median if row.call else None),
        "ENGINE": _seconds(row.engine.median if row.engine else None),
        "P90": _seconds(row.call.p90 if row.call else None),
        "P99": _seconds(row.call.p99 if row.call else None),
        "ITEMS/S": "-" if items is None else human_number(items),
        "MEMORY": "-" if peak is None else human_size(peak),
        "SPEED": _ratio(ratio) if ratio else "-",
    }


def _agreed(row: BenchmarkRow) -> str:
    if row.failure:
        return "failed"
    if row.agreement is None:
        return "-"
    return f"{'within' if row.agreement.agreed else 'no:'} {row.agreement.percent}"


def _ratio(ratio: Ratio) -> str:
    value, low, high = (
        f"{each:.2f}" if 0.1 <= each < 10 else human_number(each)
        for each in (ratio.value, ratio.low, ratio.high)
    )
    return f"{value}× ({low}–{high})"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else human_seconds(seconds)
