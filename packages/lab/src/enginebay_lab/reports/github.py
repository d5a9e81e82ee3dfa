"""A report for a job of GitHub Actions: its summary in Markdown, and annotations of lines.

The summary of a job shows Markdown and neither styles nor scripts, so it has the page's summary and
tables, without its plots. An annotation is shown beside the line that it is about.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from enginebay_lab.reports.entries import merge_entries
from enginebay_lab.reports.facts import report_title, summarize_report
from enginebay_lab.reports.sweep_section import describe_sweep
from enginebay_lab.reports.tables import SIGNS, overview_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.comparison.comparison import ComparisonRow
    from enginebay_lab.reports.findings import Findings
    from enginebay_lab.reports.tables import PageTable, TableCell

#: A line of a model in a message: ``folder/net.py:12``, or as in a traceback.
_PLACE = re.compile(r'([^\s"\':,]+\.py)(?:", line |:)(\d+)')
#: The name of a function that builds a model.
_FUNCTION = re.compile(r"(.+\.py):(\w+)")


class _Problem(NamedTuple):
    """A model without a verified artifact on an engine.

    Attributes:
        label: The engine, and in a sweep also the model.
        verdict: The verdict; ``failed`` or ``lost`` if there is none.
        text: The reason, and what to do.
        model: The model's name; empty if unknown.
    """

    label: str
    verdict: str
    text: str
    model: str


def format_summary(report: Findings) -> str:
    """Return the report as Markdown: what is verified, the tables, and the reasons of failures."""
    entries = merge_entries(report)
    parts = [f"## {_escape(report_title(report))}"]
    parts += ["\n".join(f"- {_escape(text)}" for text in summarize_report(report, entries))]
    if entries:
        parts.append(_format_table(overview_table(entries)))
    for sweep in report.sweeps:
        parts += [_format_table(table) for table in _tables_of(describe_sweep(sweep))]
        parts += [f"**Worse than in the baseline:** {_escape(text)}" for text in sweep.regressions]
    for problem in _find_problems(report):
        sign = SIGNS.get(problem.verdict, "·")
        parts.append(f"**{sign} {_escape(problem.label)}: {problem.verdict}**")
        parts.append("\n".join(f"    {line}" for line in problem.text.splitlines()))  # as it is
    return "\n\n".join(filter(None, parts)) + "\n"


def format_annotations(report: Findings) -> Iterator[str]:
    """Yield an annotation for each engine without a verified artifact.

    The annotation is at the line that the reason names, or at the function that builds the model.
    """
    for problem in _find_problems(report):
        level = "warning" if problem.verdict == "unverified" else "error"
        place = _find_line(problem.text) or _find_function(problem.model)
        where = f"file={_property(_from_checkout(place[0]))},line={place[1]}," if place else ""
        title = _property(f"{problem.label}: {problem.verdict}")
        yield f"::{level} {where}title={title}::{_data(problem.text)}"


def _find_problems(report: Findings) -> Iterator[_Problem]:
    model = next((failure.model for failure in report.failures), "")
    for comparison in report.comparisons:
        model = comparison.model
    for artifact in report.artifacts:
        model = artifact.manifest.model or model
    rows: list[tuple[ComparisonRow, str]] = [
        (entry, model) for entry in merge_entries(report) if entry.verdict
    ]
    rows += [(row, row.model) for sweep in report.sweeps for row in sweep.rows]
    for row, name in rows:
        if row.verdict != "verified":
            lines = (row.reason, f"hint: {row.hint}" if row.hint else "")
            yield _Problem(row.label, row.verdict, "\n".join(filter(None, lines)), name)


def _tables_of(section: dict[str, object]) -> Sequence[PageTable]:
    tables: Sequence[PageTable] = section["tables"]  # type: ignore[assignment]  # a page's values
    return [table for table in tables if table.rows]


def _format_table(table: PageTable) -> str:
    """Return a table in Markdown, with numbers aligned to the right."""
    numbers = (cell.kind == "number" for cell in table.rows[0])
    rows = [
        [_escape(column) for column in table.columns],
        ["--:" if is_number else "---" for is_number in numbers],
        *([_format_cell(cell) for cell in row] for row in table.rows),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _format_cell(cell: TableCell) -> str:
    sign = f"{SIGNS.get(cell.text, '·')} " if cell.kind == "verdict" and cell.text else ""
    return sign + (_escape(cell.text) or "–")


def _escape(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return re.sub(r"([\\`*_\[\]<>|#~&])", r"\\\1", " ".join(text.split()))


def _find_line(text: str) -> tuple[Path, int] | None:
    """Return the first line of a local file that a text names; None if it names none."""
    for name, line in _PLACE.findall(text):
        if file := _find_file(Path(name)):
            return file, int(line)
    return None


def _find_file(path: Path) -> Path | None:
    """Return a file below the current folder whose full path ends with ``path``, or None."""
    here = Path.cwd()
    # Messages name a file and its folder alone. A hidden folder may have an environment with files
    # of the same name.
    found = [
        file.relative_to(here)
        for file in ([path] if path.is_absolute() else here.rglob(path.name))
        if file.is_relative_to(here) and file.parts[-len(path.parts) :] == path.parts
    ]
    known = [file for file in found if not any(part.startswith(".") for part in file.parts)]
    return min(known, key=lambda file: (len(file.parts), file), default=None)


def _find_function(model: str) -> tuple[Path, int] | None:
    """Return the file and line of ``file.py:attr``, or of a model file its first line."""
    match = _FUNCTION.fullmatch(model)
    file = _find_file(Path(match[1] if match else model).absolute()) if model else None
    if file is None or not file.is_file():
        return None
    if match is None:
        return file, 1
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError as err:
        return file, err.lineno or 1
    except ValueError:  # a null byte
        return file, 1
    lines = [node.lineno for node in tree.body if getattr(node, "name", "") == match[2]]
    return file, lines[-1] if lines else 1


def _from_checkout(file: Path) -> str:
    """Return the path of a file in the repository, since a step may run in a folder of it."""
    root = Path(os.environ.get("GITHUB_WORKSPACE", "")).absolute()
    return str(file.absolute().relative_to(root) if file.absolute().is_relative_to(root) else file)


def _data(text: str) -> str:
    """Return a text as the message of a workflow command has it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return a text as a property of a workflow command has it."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
