"""Reports: what comparisons, evaluations and artifacts found, on one page or as one JSON document.

A report keeps the records as they are; the page is made from them alone, so that the JSON document
can become the page at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.reports.gathering import report
    from enginebay.reports.record import ReportedArtifact
    from enginebay.reports.result import Report, json_schema
    from enginebay.reports.saving import check_output, check_packages

__all__ = ["Report", "ReportedArtifact", "check_output", "check_packages", "json_schema", "report"]

__getattr__ = lazy_names(
    __name__,
    {
        "Report": "reports.result",
        "ReportedArtifact": "reports.record",
        "check_output": "reports.saving",
        "check_packages": "reports.saving",
        "json_schema": "reports.result",
        "report": "reports.gathering",
    },
)
