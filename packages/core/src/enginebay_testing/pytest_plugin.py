"""The pytest plugin: the options and the reports of the conformance kit.

A project loads it by the name of the package, ``-p enginebay_testing``, in ``addopts`` or on the
command line. ``--backend`` exists only where it is passed, and runs the kit itself. If a project
has its own option ``--backend``, its ``conftest.py`` loads the plugin instead:
``pytest_plugins = ["enginebay_testing"]``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

#: The ``dest`` of the option ``--backend``; another project's ``--backend`` has a different one.
OPTION = "enginebay_backend"
#: The ``dest`` of the option ``--params``.
PARAMS = "enginebay_params"
#: The ``dest`` of the option ``--quick``.
QUICK = "enginebay_quick"

#: The attribute of pytest's report that holds the outcome of a conformance test.
_OUTCOME = "enginebay_law"

_COLLECTOR = "enginebay-outcomes"


class OutcomeCollector:
    """Collects the outcomes of conformance tests from all processes of pytest-xdist."""

    def __init__(self) -> None:
        self.outcomes: dict[int, object] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the outcome that is attached to the report of a conformance test."""
        outcome = getattr(report, _OUTCOME, None)
        if outcome is not None:
            self.outcomes[outcome[0]] = outcome  # the last one of a test is its outcome


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--conformance-report``, also for a backend's own tests."""
    parser.getgroup("enginebay").addoption(
        "--conformance-report",
        metavar="DIR",
        help="write BACKEND.json and BACKEND.md for each backend that the conformance kit tests",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    """Add the options and the tests of the kit if the arguments have a ``--backend``."""
    flags = {word.partition("=")[0] for word in args}
    if "--backend" not in flags:
        return
    group = parser.getgroup("enginebay")
    help_text = "test this backend with the conformance kit"
    group.addoption("--backend", dest=OPTION, metavar="NAME", help=help_text)
    help_text = "test with another default of a parameter; repeated for several"
    group.addoption(
        "--params", dest=PARAMS, action="append", default=[], metavar="FIELD=VALUE", help=help_text
    )
    help_text = "also test networks of one operator each, which takes minutes"
    group.addoption("--operators", action="store_true", help=help_text)
    help_text = "run ten of the conformance tests, in a minute"
    group.addoption("--quick", dest=QUICK, action="store_true", help=help_text)
    args += ["--pyargs", "enginebay_testing.command_line"]
    if "--operators" in flags:
        args.append("enginebay_testing.operators")


def pytest_configure(config: pytest.Config) -> None:
    """Raise an error if the backend is not installed or the report cannot be written."""
    config.pluginmanager.register(OutcomeCollector(), _COLLECTOR)
    _make_folder(config.getoption("--conformance-report", default=None))
    name = config.getoption(OPTION, default=None)
    if name is None:
        return
    import enginebay as eb

    names = [status.name for status in eb.list_backends()]
    if name not in names:
        problem = f"no backend '{name}' is installed" if name else "no backend was specified"
        known = ", ".join(names) or "none"
        raise pytest.UsageError(f"{problem}: pass --backend NAME; installed: {known}")
    if words := config.getoption(PARAMS):
        from enginebay_testing.preset_backend import read_values

        read_values(eb.get_backend(name), words)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--quick``, deselect all conformance tests but ten."""
    if not config.getoption(QUICK, default=False):
        return
    from enginebay_testing.conformance import suite

    left = [item for item in items if getattr(item, "originalname", "") not in suite.QUICK]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def _make_folder(folder: str | None) -> None:
    if folder is None:
        return
    # Created before the tests run for minutes, not when the reports are written.
    try:
        if not folder:
            raise FileNotFoundError("the path is empty")
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as err:
        problem = f"'{folder}' cannot be a folder for reports: {err.strerror or err}"
        raise pytest.UsageError(f"{problem}; pass --conformance-report DIR") from err


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach a conformance test's outcome to pytest's report, so that pytest-xdist transmits it."""
    report = yield
    if _is_law(item):
        from enginebay_testing.conformance.report import law_outcome

        setattr(report, _OUTCOME, law_outcome(item, report))
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print how many conformance tests each backend passed, and why others did not pass."""
    collector = config.pluginmanager.get_plugin(_COLLECTOR)
    if not (collector and collector.outcomes) or hasattr(config, "workerinput"):
        return  # no test of the kit ran, or only the controller of pytest-xdist reports
    from enginebay_testing.conformance.report import collect_reports, summary_lines
    from enginebay_testing.conformance.report_files import write_report

    folder = config.getoption("--conformance-report", default=None)
    for report in collect_reports(collector.outcomes.values()):
        terminalreporter.section(f"conformance of {report.backend}")
        terminalreporter.write_line("\n".join(summary_lines(report)))
        if folder:
            write_report(report, Path(folder))


def _is_law(item: pytest.Item) -> bool:
    """Return True if a test belongs to the conformance kit, without importing the kit."""
    families = getattr(getattr(item, "cls", None), "__mro__", ())
    return any(cls.__module__.startswith("enginebay_testing.conformance") for cls in families)
