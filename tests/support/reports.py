"""What the conformance kit found about each backend, kept as JSON, law by law."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from enginebay.testing.conformance.report import Claims, Finding, Outcome, Report

ROOT = Path(__file__).parents[2]

#: What the page is made from.
KEPT = Path(__file__).parent / "reports.json"

#: Where ``nox`` leaves the reports of the backends' own sessions.
MADE = ROOT / "build" / "conformance"

#: The reports of the page. Stand-ins take the place of what no test machine has: a GPU.
STAND_INS = "tensorrt-rtx-on-stand-ins"
NAMES = ("onnxruntime", "openvino", "ncnn", "tensorrt", "tensorrt-rtx", STAND_INS)


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A law, or a case of it, that is not held.

    Attributes:
        law: The test's name.
        case: The parameters, where the law has several cases.
        outcome: ``skipped``, ``excused`` or ``broken``.
        reason: Why.
    """

    law: str
    case: str
    outcome: Outcome
    reason: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A report without what changes from run to run.

    Attributes:
        engine_version: Empty where there is no engine.
        claims: What the backend says that it can do.
        laws: How many cases of each law had each outcome, in the order of the laws.
        left_out: What is not held.
    """

    engine_version: str = ""
    claims: Claims = Claims()
    laws: dict[str, dict[Outcome, int]] = {}
    left_out: tuple[LeftOut, ...] = ()

    @property
    def counts(self) -> Counter[str]:
        """How many cases had each outcome."""
        return sum((Counter[str](outcomes) for outcomes in self.laws.values()), Counter())


def shortened(report: Report) -> Kept:
    """What the page needs of a report."""
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
    """What a session of this checkout's ``nox`` found; None where it has not run."""
    path = MADE / f"{name}.json"
    if not path.exists():
        return None
    return shortened(msgspec.json.decode(path.read_bytes(), type=Report))


def load(path: Path = KEPT) -> dict[str, Kept]:
    """What is kept, by backend."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Kept])


def save(kept: dict[str, Kept], path: Path = KEPT) -> None:
    """Keep it, in a form that shows changes line by line."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
