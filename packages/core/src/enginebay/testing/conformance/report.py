"""Reports of the kit: as lines, as JSON, as a badge and a table in Markdown."""

from __future__ import annotations

import inspect
import platform
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pytest

import enginebay as eb
from enginebay.plugins import list_plugins

if TYPE_CHECKING:
    from collections.abc import Iterable

Outcome = Literal["held", "broken", "skipped", "excused"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One law, or one case of it.

    Attributes:
        family: What the law is about.
        law: The test's name.
        case: The parameters, where the law has several cases.
        sentence: The law.
        outcome: ``held``; ``broken``; ``skipped``, since it does not apply; ``excused``, since
            the backend opted out.
        reason: Why it is not held.
        seconds: How long it took.
    """

    family: str
    law: str
    case: str
    sentence: str
    outcome: Outcome
    reason: str
    seconds: float


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a ``BackendInfo`` that the laws test.

    Attributes:
        irs: The IRs it converts from, the preferred one first.
        devices: The default first.
        dtypes: Of inputs and outputs.
        precisions: The default first.
        dynamic_shapes: Whether one artifact serves several input shapes.
        runtime_distributions: What its runtime needs.
    """

    irs: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()
    dynamic_shapes: bool = False
    runtime_distributions: tuple[str, ...] = ()

    @classmethod
    def of(cls, info: eb.BackendInfo) -> Claims:
        """Copy the claims of a backend."""
        return cls(**{name: getattr(info, name) for name in cls.__struct_fields__})


class Report(msgspec.Struct, kw_only=True):
    """The findings about one backend.

    Attributes:
        backend: Its name.
        distribution: Who provides it.
        version: That distribution's version.
        engine_version: The engine's version; empty where it is not installed.
        enginebay: The version of the kit.
        python: The interpreter's version.
        platform: The system.
        claims: The backend's own; empty where it cannot be loaded.
        plugins: The plugins that see every backend: what they do, the laws see too.
        findings: Law by law.
        operators: Network by network, where ``--operators`` asked for them.
        schema: Grows when a reader would have to change.
    """

    backend: str
    distribution: str = ""
    version: str = ""
    engine_version: str = ""
    enginebay: str = eb.__version__
    python: str = platform.python_version()
    platform: str = platform.platform()
    claims: Claims = Claims()
    plugins: tuple[str, ...] = ()
    findings: list[Finding] = []
    operators: list[Finding] = []
    schema: int = 1

    @property
    def counts(self) -> Counter[str]:
        """The number of laws with each outcome."""
        return Counter(finding.outcome for finding in self.findings)


#: What the outcome of a network of one operator means.
_FATES = {"held": "verified", "skipped": "refused", "broken": "not verified"}

_KEY = pytest.StashKey[dict[str, Report]]()


def law_outcome(item: pytest.Item, report: pytest.TestReport) -> Any:
    """The outcome of a law as plain data, which may go to another process; None while it runs."""
    if report.when != "call" and report.passed:
        return None
    law = getattr(item, "originalname", item.name)
    function = inspect.unwrap(item.function)  # type: ignore[attr-defined]  # a law is a function
    sentence = (inspect.getdoc(function) or "").partition("\n\n")[0]
    finding = Finding(
        family=function.__module__.rpartition(".")[2],
        law=law,
        case=item.name[len(law) + 1 : -1],
        sentence=" ".join(sentence.split()),
        outcome=_outcome(report),
        reason=_reason(report),
        seconds=round(report.duration, 3),
    )
    place = item.session.items.index(item)  # the same in every process of pytest-xdist
    return msgspec.to_builtins((place, _report_of(item), finding))


def collect_reports(outcomes: Iterable[Any]) -> list[Report]:
    """Return a report for each backend, from what :func:`law_outcome` returned in any order."""
    found: dict[str, Report] = {}
    placed = msgspec.convert(list(outcomes), list[tuple[int, Report, Finding]])
    for _, report, finding in sorted(placed, key=lambda one: one[0]):
        kept = found.setdefault(report.backend, report)
        (kept.operators if finding.family == "operators" else kept.findings).append(finding)
    return list(found.values())


def summary_lines(report: Report) -> list[str]:
    """Return the counts, then each law that is not held, with the reason."""
    counts = ", ".join(f"{number} {outcome}" for outcome, number in report.counts.items())
    others = (f"  with the plugin {each}, which sees every backend" for each in report.plugins)
    shown = [counts, *others] if report.findings else []
    for outcome in ("broken", "excused", "skipped"):
        findings = [one for one in report.findings if one.outcome == outcome]
        shown += [f"  {outcome}: {_title(one)}: {one.reason}" for one in findings]
    for group, fates in _operator_groups(report).items():
        told = ", ".join(f"{len(names)} {fate}" for fate, names in fates.items() if names)
        shown.append(f"  operators, {group}: {told}")
    return shown


def write_report(report: Report, folder: Path) -> None:
    """Write ``BACKEND.json`` and ``BACKEND.md`` into a folder."""
    document = msgspec.to_builtins(report) | {"counts": dict(report.counts)}
    text = msgspec.json.format(msgspec.json.encode(document)) + b"\n"
    (folder / f"{report.backend}.json").write_bytes(text)
    (folder / f"{report.backend}.md").write_text(markdown(report), encoding="utf-8")


def markdown(report: Report) -> str:
    """Return a badge, the versions, and a table of the laws."""
    colour = "red" if report.counts["broken"] else "brightgreen"
    counts = ", ".join(f"{number} {outcome}" for outcome, number in report.counts.items())
    badge = f"https://img.shields.io/badge/enginebay_conformance-{counts}-{colour}"
    engine = f", engine {report.engine_version}" if report.engine_version else ""
    laws: dict[str, list[Finding]] = {}
    for finding in report.findings:
        laws.setdefault(finding.law, []).append(finding)
    versions = (
        f"{report.distribution} {report.version}{engine}, enginebay {report.enginebay}, "
        f"Python {report.python}, {report.platform}"
    )
    return "\n".join(
        [
            f"![enginebay conformance: {counts}]({badge.replace(' ', '_').replace(',', '%2C')})",
            "",
            versions,
            "",
            "| about | law | outcome | why not |",
            "|---|---|---|---|",
            *map(_row, laws.values()),
            "",
            *_operator_table(report),
        ]
    )


def _operator_groups(report: Report) -> dict[str, dict[str, list[str]]]:
    """The networks of one operator, by group and by what became of them."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in report.operators:
        group, _, name = one.case.partition(": ")
        fates = found.setdefault(group, {fate: [] for fate in _FATES.values()})
        fates[_FATES[one.outcome]].append(name)
    return found


def _operator_table(report: Report) -> list[str]:
    if not report.operators:
        return []
    rows = []
    for group, fates in _operator_groups(report).items():
        verified, *others = fates.values()
        cells = (", ".join(f"`{name}`" for name in names).replace("|", "\\|") for names in others)
        rows.append(f"| {group} | {len(verified)} | {' | '.join(cells)} |")
    return ["| operators | verified | refused | not verified |", "|---|---|---|---|", *rows, ""]


def _report_of(item: pytest.Item) -> Report:
    """Return the report of a law's backend, without findings; made once in a process."""
    found = item.config.stash.setdefault(_KEY, {})
    values = getattr(item, "funcargs", {})
    name = str(values.get("backend") or (item.parent and item.parent.name))
    if name not in found:
        found[name] = _with_versions(Report(backend=name, findings=[]), values.get("kit"))
    return found[name]


def _with_versions(report: Report, kit: Any) -> Report:
    """Return the report with the versions, as far as the backend can be loaded."""
    if kit is not None:
        try:
            report.distribution, report.version = kit.status.distribution, kit.status.version
            report.claims = Claims.of(kit.backend.info)
            report.plugins = tuple(f"{one.name} of {one.provider}" for one in list_plugins())
            report.engine_version = kit.backend.get_version()
        except eb.EnginebayError:
            return report  # a law fails for the same reason
    return report


def _outcome(report: pytest.TestReport) -> Outcome:
    if report.skipped:
        return "excused" if hasattr(report, "wasxfail") else "skipped"
    return "held" if report.passed else "broken"


def _reason(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail).removeprefix("reason: ")
    if isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr or "").partition("\n")[0]
    return _first_words(crash.message, f"{Path(crash.path).name}:{crash.lineno}")


def _first_words(message: str, place: str) -> str:
    r"""The first line that says more than an exception's type; else the type, and its place.

    Example:
        >>> _first_words("AssertionError: \nArrays are not equal", "inference.py:7")
        'AssertionError: Arrays are not equal'
        >>> _first_words("AssertionError", "inference.py:7")
        'AssertionError at inference.py:7'
    """
    first, *others = [line.strip() for line in message.splitlines() if line.strip()] or ["failed"]
    name = first.rstrip(":")
    if not name.isidentifier():
        return first
    return f"{name}: {others[0]}" if others else f"{name} at {place}"


def _title(finding: Finding) -> str:
    title = finding.law.removeprefix("test_").replace("_", " ")
    return f"{title} ({finding.case})" if finding.case else title


def _row(findings: list[Finding]) -> str:
    """Return one law's row, with the number of cases for each outcome."""
    counts = Counter(finding.outcome for finding in findings)
    outcome = ", ".join(f"{number} {name}" for name, number in counts.items())
    reasons = dict.fromkeys(finding.reason for finding in findings if finding.reason)
    first = findings[0]
    cells = (first.family, first.sentence, outcome if len(findings) > 1 else first.outcome)
    return f"| {' | '.join(cells)} | {'; '.join(reasons)} |".replace("\n", " ")
