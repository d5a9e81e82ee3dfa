"""``enginebay bisect``: find the first layer where an engine leaves the model, or check each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    MODEL_HELP,
    add_inputs,
    artifact_inputs,
    print_fields,
    print_labelled,
    print_table,
    stdout_on_stderr,
)
from enginebay.errors import UsageError
from enginebay_lab.commands.results import add_report, check_report, show

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from enginebay_lab.diagnosis.bisection import Bisection, Place
    from enginebay_lab.diagnosis.piece_rows import PieceRow, Pieces

EXAMPLES = (
    "enginebay bisect artifact",
    "enginebay bisect artifact --against other",
    "enginebay bisect artifact --pieces",
)

#: Rows of the table before the culprit, and behind it.
_AROUND = 4


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    import enginebay as eb

    parser.usage = (
        "enginebay bisect ARTIFACT [--model MODEL] [--input NAME=SPEC] "
        "[--against ARTIFACT | --pieces] [flags]"
    )
    parser.add_argument("artifact", metavar="ARTIFACT", type=Path)
    parser.add_argument(
        "--model", metavar="MODEL", help=f"the model, where it has moved: {MODEL_HELP}"
    )
    add_inputs(parser, "those that the artifact was verified with")
    parser.add_argument(
        "--against",
        metavar="ARTIFACT",
        type=Path,
        help="compare with this artifact's engine instead of PyTorch",
    )
    parser.add_argument(
        "--pieces",
        action="store_true",
        help="compare every module alone, right or wrong as the whole is",
    )
    eb.ExportOptions.add_arguments(parser, only=("rewriters",))
    eb.VerifyOptions.add_arguments(parser, only=("rtol", "atol", "timeout"))
    add_report(parser)


def run(args: Namespace) -> int:
    """Bisect; a place that is found fails the command with exit code 1, as a mismatch does."""
    import enginebay as eb
    from enginebay.commands import progress
    from enginebay_lab.diagnosis.bisect_artifact import bisect
    from enginebay_lab.diagnosis.check_pieces import pieces

    if args.pieces:
        for flag in ("against", "report"):
            if getattr(args, flag) is not None:
                raise UsageError(f"--pieces and --{flag} cannot be combined")
    artifact = eb.open_artifact(args.artifact)
    check_report(args)
    with progress() as watch, stdout_on_stderr():
        what = (artifact, args.model, artifact_inputs(artifact, args.inputs))
        given = {
            **eb.ExportOptions.given_arguments(args),
            **eb.VerifyOptions.given_arguments(args),
            "watch": watch,
        }
        if args.pieces:
            checked = pieces(*what, **given)
        else:
            found = bisect(*what, against=args.against, **given)
    if args.pieces:
        show(args, checked, _print_pieces)
        return int(not checked.passed)
    show(args, found, _print, artifact)
    return int(found.found)


def _print(found: Bisection) -> None:
    print_labelled("", found.reason)
    tolerance = "" if found.rtol is None else f"rtol {found.rtol:.3g}, atol {found.atol:.3g}"
    print_fields(
        [
            ("module", found.module or ("(the model)" if found.found else "")),
            ("node", f"{found.node} ({found.operator})" if found.node else ""),
            ("tensor", found.tensor),
            ("allowed", tolerance),
            ("sample", found.sample),
            ("engines", f"{found.engines} built"),
        ]
    )
    if rows := _around(found):
        print_table(("MODULE", "THROUGH", "ALONE", ""), map(_row, rows), right=("THROUGH", "ALONE"))


def _around(found: Bisection) -> tuple[Place, ...]:
    """The places near the culprit: the first wrong one where it has none of its own."""
    places = found.places
    own = [i for i, place in enumerate(places) if place.module == found.module and place.wrong]
    wrong = [i for i, place in enumerate(places) if place.wrong]
    at = (own or wrong or [0])[0]
    return places[max(0, at - _AROUND) : at + _AROUND + 1]


def _row(place: Place) -> tuple[str, str, str, str]:
    verdict = ""
    if place.wrong_alone:
        verdict = "wrong alone"
    elif place.wrong:
        verdict = "wrong" if place.wrong_alone is None else "right alone"
    return place.title, _number(place.accumulated), _number(place.alone), verdict


def _print_pieces(found: Pieces) -> None:
    print_labelled("", found.summary)
    print_fields([("precision", found.precision), ("engines", f"{found.engines} built")])
    if rows := found.unverified:
        columns = ("MODULE", "OPERATORS", "ERROR", "RTOL", "ATOL", "")
        print_table(columns, map(_piece_row, rows), right=("ERROR", "RTOL", "ATOL"))


def _piece_row(row: PieceRow) -> tuple[str, ...]:
    operators = ",".join(row.operators) or row.type
    figures = map(_number, (row.max_abs_error, row.rtol, row.atol))
    return row.title, operators, *figures, row.reason or f"on {row.sample} values"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
