"""The result of ``report``, which can be written as JSON or as an HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.authors.files import write_whole
from enginebay_lab.reports.findings import Findings
from enginebay_lab.reports.output_files import check_output

if TYPE_CHECKING:
    from pathlib import Path


class Report(Findings, frozen=True, kw_only=True, tag="report"):
    """The result of :func:`enginebay_lab.report`.

    Attributes:
        schema: The schema version of the JSON document.
        enginebay: The version of Enginebay that made the report.
        created: When the report was made: UTC, ISO 8601.
        artifacts: The artifacts, without duplicates.
        failures: Deployments that made no artifact.
        comparisons: Results of :func:`enginebay_lab.compare`.
        benchmarks: Results of :func:`enginebay_lab.benchmark`.
        evaluations: Results of :func:`enginebay_lab.evaluate`.
        sensitivities: Results of :func:`enginebay_lab.sensitivity`.
        bisections: Results of :func:`enginebay_lab.bisect`.
        sweeps: Results of :func:`enginebay_lab.sweep`, of any number of models.
        command: The command that makes the report again; empty if it was made in Python.

    Example:
        >>> Report(created="2026-01-31T12:00:00Z").to_json()["created"]
        '2026-01-31T12:00:00Z'
    """

    def to_json(self) -> dict[str, Any]:
        """Return the content of the report's JSON document as a dict."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain

    def to_html(self) -> str:
        """Return the report as one HTML page, which loads no other files."""
        from enginebay_lab.reports.page import render_page

        return render_page(self)

    def save(self, path: str | Path) -> None:
        """Write the report atomically, as an HTML page or as a JSON document.

        An existing file is replaced only if it is a report.

        Args:
            path: A file whose name ends with ``.html`` or ``.json``.

        Raises:
            UsageError: The path has another suffix, or the file exists and is not a report.
        """
        path = check_output(path)
        if path.suffix == ".html":
            write_whole(path, self.to_html().encode())
        else:
            write_whole(path, msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")
