"""A report: its records, as JSON and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.authors import write_whole
from enginebay_lab.reports.findings import Findings
from enginebay_lab.reports.output_files import check_output

if TYPE_CHECKING:
    from pathlib import Path


class Report(Findings, frozen=True, kw_only=True, tag="report"):
    """The result of :func:`enginebay_lab.report`.

    Attributes:
        schema: The version of the JSON document.
        enginebay: The version of Enginebay that made it.
        created: When: UTC, ISO 8601.
        artifacts: The artifacts, each once.
        comparisons: What :func:`enginebay_lab.compare` found.
        benchmarks: What :func:`enginebay_lab.benchmark` found.
        evaluations: What :func:`enginebay_lab.evaluate` found.
        sensitivities: What :func:`enginebay_lab.sensitivity` found.
        bisections: What :func:`enginebay_lab.bisect` found.
        sweeps: What :func:`enginebay_lab.sweep` found, of any number of models.
        command: What to type to make it again; empty where it was made in Python.

    Example:
        >>> Report(created="2026-01-31T12:00:00Z").to_json()["created"]
        '2026-01-31T12:00:00Z'
    """

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, as its JSON document has it."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain

    def to_html(self) -> str:
        """The report as one page that needs no other file and no network.

        Raises:
            MissingDependencyError: Jinja2 or pygal is not installed.
        """
        from enginebay_lab.reports.page import render

        return render(self)

    def save(self, path: str | Path) -> None:
        """Write the page, or the JSON document, whole or not at all.

        A file that is there already is replaced where it is a report.

        Args:
            path: A file whose name ends with ``.html`` or ``.json``.

        Raises:
            UsageError: It has another ending, or something else is in its place.
            MissingDependencyError: It is a page, and Jinja2 or pygal is not installed.
        """
        path = check_output(path)
        if path.suffix == ".html":
            write_whole(path, self.to_html().encode())
        else:
            write_whole(path, msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")
