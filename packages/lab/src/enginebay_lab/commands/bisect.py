"""``enginebay verify ARTIFACT --bisect``: the first place where the engine leaves the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.cli.output import (
    print_fields,
    print_json,
    print_labelled,
    print_table,
    stdout_on_stderr,
)
from enginebay.cli.report_flag import write_report

if TYPE_CHECKING:
    from argparse import Namespace

    from enginebay import Bisection
    from enginebay.artifact import Artifact
    from enginebay.bisection import Place

#: Rows of the table before the culprit, and behind it.
_AROUND = 4


def run(args: Namespace, artifact: Artifact, inputs: Any) -> int:
    """Bisect; a place that is found fails the command with exit code 1, as a mismatch does."""
    import msgspec

    from enginebay.cli.progress import progress
    from enginebay.operations import bisect

    with progress() as watch, stdout_on_stderr():
        found = bisect(
            artifact,
            args.model,
            inputs,
            against=args.against,
            rtol=args.rtol,
            atol=args.atol,
            timeout=args.timeout,
            watch=watch,
        )
    if args.json:
        print_json(msgspec.to_builtins(found))
    else:
        _print(found)
    write_report(args, artifact, found)
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


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
