"""Reports of the kit: what the tests found, and lines on the terminal."""

from __future__ import annotations

import inspect
import platform
from collections import Counter
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, entry_points, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import pytest
from packaging.requirements import Requirement

import enginebay as eb
from enginebay_testing.conformance.kit import ALSO_PASSES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from enginebay_testing.conformance.kit import Kit

Outcome = Literal["held", "broken", "skipped", "excused"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a conformance test, or of one case of a parametrized test.

    Attributes:
        family: The group of the test: ``inference``, ``artifacts`` …
        law: The test's name.
        case: The test's parameters; empty if it is not parametrized.
        sentence: The first sentence of the test's docstring, which states the requirement.
        outcome: ``held`` (passed), ``broken`` (failed), ``skipped`` (does not apply) or
            ``excused`` (the backend opted out).
        reason: The reason for an outcome other than ``held``.
        seconds: The duration of the test.
    """

    family: str
    law: str
    case: str
    sentence: str
    outcome: Outcome
    reason: str
    seconds: float


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a ``BackendInfo`` that the conformance tests check.

    Attributes:
        irs: The supported IRs, in order of preference.
        devices: The supported kinds of devices, starting with the default.
        dtypes: The supported dtypes of inputs and outputs.
        precisions: The supported precisions, starting with the default.
        dynamic_shapes: Whether one artifact supports several input shapes.
        runtime_distributions: The distributions that contain the engine.
    """

    irs: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()
    dynamic_shapes: bool = False
    runtime_distributions: tuple[str, ...] = ()

    @classmethod
    def of(cls, info: eb.BackendInfo) -> Claims:
        """Copy the fields of this class from a backend's information."""
        return cls(**{name: getattr(info, name) for name in cls.__struct_fields__})


class Report(msgspec.Struct, kw_only=True):
    """The results of the kit for one backend.

    Attributes:
        backend: The backend's name.
        distribution: The backend's distribution.
        version: The distribution's version.
        core: The versions of Enginebay that the distribution requires.
        home: The address of the distribution's website; empty if its metadata has none.
        engine_version: The engine's version; empty if it is not installed.
        enginebay: The version of the kit.
        python: Python's version.
        platform: The operating system.
        claims: The capabilities that the backend declares; empty if it cannot be loaded.
        plugins: The installed plugins that apply to every backend: they may influence the outcomes.
        findings: The outcomes of the conformance tests.
        operators: The outcomes of the networks of one operator; empty without ``--operators``.
        schema: The version of this format; it increases with every incompatible change.
    """

    backend: str
    distribution: str = ""
    version: str = ""
    core: str = ""
    home: str = ""
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
        """The number of conformance tests with each outcome."""
        return Counter(finding.outcome for finding in self.findings)


#: The result of a network of one operator, by its outcome.
_RESULTS = {"held": "verified", "skipped": "refused", "broken": "not verified"}

_KEY = pytest.StashKey[dict[str, Report]]()


def law_outcome(item: pytest.Item, report: pytest.TestReport) -> object:
    """Return a conformance test's outcome as JSON values; None for a passed teardown.

    After the setup, the test is broken: this remains if it ends its process.
    """
    if report.when == "teardown" and report.passed:
        return None
    unended = "the test has not ended: its process crashed or was interrupted"
    started = report.when == "setup" and report.passed
    # Without the parameters of the case.
    law = getattr(item, "originalname", item.name)
    # An opt-out wraps the test, whose docstring and module are reported.
    function = inspect.unwrap(item.function)  # type: ignore[attr-defined]  # it is a function
    sentence = (inspect.getdoc(function) or "").partition("\n\n")[0]
    finding = Finding(
        family=function.__module__.rpartition(".")[2],
        law=law,
        case=item.name[len(law) + 1 : -1],  # in test_law[case]
        sentence=" ".join(sentence.split()),
        outcome="broken" if started else _outcome_of(report),
        reason=unended if started else _reason_of(report),
        seconds=round(report.duration, 3),
    )
    index = item.session.items.index(item)  # the same in every process of pytest-xdist
    return msgspec.to_builtins((index, _report_of(item), finding))


def collect_reports(outcomes: Iterable[object]) -> list[Report]:
    """Return a report for each backend, from results of :func:`law_outcome` in any order."""
    reports: dict[str, Report] = {}
    indexed = msgspec.convert(list(outcomes), list[tuple[int, Report, Finding]])
    for _, first, finding in sorted(indexed, key=lambda item: item[0]):
        report = reports.setdefault(first.backend, first)
        (report.operators if finding.family == "operators" else report.findings).append(finding)
    return list(reports.values())


def summary_lines(report: Report) -> list[str]:
    """Return terminal lines: counts, plugins, tests that did not pass, and counts of operators."""
    counts = ", ".join(f"{number} {outcome}" for outcome, number in report.counts.items())
    plugins = (f"  with the plugin {text}, which is for every backend" for text in report.plugins)
    lines = [counts, *plugins] if report.findings else []
    for outcome in ("broken", "excused", "skipped"):
        findings = [f for f in report.findings if f.outcome == outcome]
        lines += [f"  {outcome}: {_readable_title(f)}: {f.reason}" for f in findings]
    also = [f.case for f in report.findings if f.reason.endswith(ALSO_PASSES)]
    lines += [f"  also passes: {', '.join(also)}; they may be listed"] if also else []
    for group, results in operator_groups(report).items():
        text = ", ".join(f"{len(names)} {result}" for result, names in results.items() if names)
        lines.append(f"  operators, {group}: {text}")
    return lines


def operator_groups(report: Report) -> dict[str, dict[str, list[str]]]:
    """Return group → result → the names of the one-operator networks with this result."""
    groups: dict[str, dict[str, list[str]]] = {}
    for finding in report.operators:
        group, _, name = finding.case.partition(": ")
        results = groups.setdefault(group, {result: [] for result in _RESULTS.values()})
        results[_RESULTS[finding.outcome]].append(name)
    return groups


def _report_of(item: pytest.Item) -> Report:
    """Return the report of a test's backend; the first call creates a report without outcomes."""
    reports = item.config.stash.setdefault(_KEY, {})
    values = getattr(item, "funcargs", {})
    name = str(values.get("backend") or (item.parent and item.parent.name))
    if name not in reports:
        reports[name] = _add_versions(Report(backend=name, findings=[]), values.get("kit"))
    return reports[name]


def _add_versions(report: Report, kit: Kit | None) -> Report:
    if kit is not None:
        with suppress(eb.EnginebayError):  # a test fails with the same error
            report.distribution, report.version = kit.status.distribution, kit.status.version
            report.core, report.home = _read_metadata(report.distribution)
            report.claims = Claims.of(kit.backend.info)
            report.plugins = _every_backends_plugins()
            report.engine_version = kit.backend.get_version()
    return report


def _read_metadata(distribution: str) -> tuple[str, str]:
    """Return the versions of Enginebay that a distribution requires, and its website."""
    try:
        known = metadata(distribution)
    except PackageNotFoundError:
        return "", ""
    needs = [Requirement(text) for text in known.get_all("Requires-Dist", [])]
    urls = dict(text.split(", ", 1) for text in known.get_all("Project-URL", []))
    home = next((url for name, url in urls.items() if name.lower() == "homepage"), "")
    core = next((str(need.specifier) for need in needs if need.name == "enginebay"), "")
    return core, home or urls.get("Source", "")


def _every_backends_plugins() -> tuple[str, ...]:
    """Return the installed plugins that apply to every backend, with their distributions.

    Those of Enginebay itself are left out: they are installed wherever the kit is.
    """
    installed = entry_points(group="enginebay.plugins")
    return tuple(
        sorted(
            f"{plugin.name} of {plugin.dist.name} {plugin.dist.version}"
            for plugin in installed
            if plugin.dist and plugin.dist.name != "enginebay"
        )
    )


def _outcome_of(report: pytest.TestReport) -> Outcome:
    if report.skipped:
        return "excused" if hasattr(report, "wasxfail") else "skipped"
    return "held" if report.passed else "broken"


def _reason_of(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail).removeprefix("reason: ")
    if isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr or "").partition("\n")[0]
    return _short_message(crash.message, f"{Path(crash.path).name}:{crash.lineno}")


def _short_message(message: str, location: str) -> str:
    r"""Return the first line of an exception's message.

    If the line is only the exception's type, append the next line or, without one, the location.

    Example:
        >>> _short_message("AssertionError: \nArrays are not equal", "inference.py:7")
        'AssertionError: Arrays are not equal'
        >>> _short_message("AssertionError", "inference.py:7")
        'AssertionError at inference.py:7'
    """
    first, *others = [line.strip() for line in message.splitlines() if line.strip()] or ["failed"]
    name = first.rstrip(":")
    if not name.isidentifier():
        return first
    return f"{name}: {others[0]}" if others else f"{name} at {location}"


def _readable_title(finding: Finding) -> str:
    title = finding.law.removeprefix("test_").replace("_", " ")
    return f"{title} ({finding.case})" if finding.case else title
