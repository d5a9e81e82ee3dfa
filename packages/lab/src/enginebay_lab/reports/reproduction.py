"""The commands that make a report's results again, as the page shows them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay_lab.reports.facts import shorten_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_lab.reports.findings import Findings

#: What separates a command line from the Python call in it.
_COMMENT = "  # "
#: A Python call without a command line, and its place.
_CALL = re.compile(r"(.+\)) in (.+, line \d+)")


def list_commands(report: Findings) -> list[tuple[str, str]]:
    """Return (description, command) pairs: the commands that reproduce the results, in order.

    A script that makes several results is listed once. A call in a notebook, which no command line
    repeats, is shown as it is there.
    """
    descriptions: dict[str, list[str]] = {}
    for description, recorded in _recorded_commands(report):
        command, _, call = recorded.partition(_COMMENT)
        if not command:
            continue
        if not call and (alone := _CALL.fullmatch(command)):
            command, description = alone[1], f"{description}, in {alone[2]}"
        listed = descriptions.setdefault(command, [])
        if description not in listed:
            listed.append(description)
    return [("; ".join(listed), command) for command, listed in descriptions.items()]


def _recorded_commands(report: Findings) -> Iterator[tuple[str, str]]:
    yield from (("Sweep", result.command) for result in report.sweeps)
    for comparison in report.comparisons:
        yield f"Compare {shorten_model(comparison.model)}", comparison.command
    # The command of a comparison also deploys its artifacts.
    made = {row.artifact for comparison in report.comparisons for row in comparison.rows}
    for artifact in report.artifacts:
        if artifact.path not in made:
            yield f"Deploy {Path(artifact.path).name}", artifact.manifest.command
    yield from (("Deploy again what failed", failure.command) for failure in report.failures)
    yield from (("Measure the speed", result.command) for result in report.benchmarks)
    yield from (("Evaluate", result.command) for result in report.evaluations)
    yield "Make this report", report.command
