"""The conformance results of each backend, stored as JSON, law by law."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from enginebay_testing.conformance.report import Claims, Finding, Outcome, Report

ROOT = Path(__file__).parents[2]

#: The stored reports, from which the page is made.
KEPT = Path(__file__).parent / "reports.json"

#: The folder of the reports of the backends' nox sessions.
MADE = ROOT / "build" / "conformance"

#: The reports of the page. Stand-ins replace the GPU, which no test machine has.
STAND_INS = "tensorrt-rtx-on-stand-ins"
NAMES = ("onnxruntime", "openvino", "ncnn", "tensorrt", "tensorrt-rtx", STAND_INS)


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A law, or a case of a law, that is not held.

    Attributes:
        law: The test's name.
        case: The parameters, if the law has several cases.
        outcome: ``skipped``, ``excused`` or ``broken``.
        reason: Why.
    """

    law: str
    case: str
    outcome: Outcome
    reason: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A report without the fields that change from run to run.

    Attributes:
        engine_version: Empty without an engine.
        claims: The formats, devices and types of the backend's ``BackendInfo``.
        laws: The number of cases with each outcome, by law, in the order of the laws.
        left_out: The cases that are not held.
    """

    engine_version: str = ""
    claims: Claims = Claims()
    laws: dict[str, dict[Outcome, int]] = {}
    left_out: tuple[LeftOut, ...] = ()

    @property
    def counts(self) -> Counter[str]:
        """The number of cases with each outcome."""
        return sum((Counter[str](outcomes) for outcomes in self.laws.values()), Counter())


def shortened(report: Report) -> Kept:
    """Return the fields of a report that the page needs."""
    laws: dict[str, list[Finding]] = {}
    for finding in report.findings:
        laws.setdefault(finding.law, []).append(finding)
    return Kept(
        engine_version=report.engine_version,
        claims=report.claims,
        laws={law: dict(Counter(one.outcome for one in found)) for law, found in laws.items()},
        left_out=tuple(
            LeftOut(law=one.law, case=one.case, outcome=one.outcome, reason=one.reason)
            for one in report.findings
            if one.outcome != "held"
        ),
    )


def made(name: str) -> Kept | None:
    """Return the report of a nox session of this checkout; None if it has not run."""
    path = MADE / f"{name}.json"
    if not path.exists():
        return None
    return shortened(msgspec.json.decode(path.read_bytes(), type=Report))


def load(path: Path = KEPT) -> dict[str, Kept]:
    """Return the stored reports by backend."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Kept])


def save(kept: dict[str, Kept], path: Path = KEPT) -> None:
    """Write the reports, indented, so that a diff shows changes line by line."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
