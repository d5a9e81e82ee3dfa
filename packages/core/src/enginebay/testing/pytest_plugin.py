"""What pytest loads wherever Enginebay is installed: the kit's report, and its command line.

``--backend`` exists only where the kit itself is asked for, so that it cannot clash with another
project's option of that name.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

#: What to write after ``--pyargs``.
KIT = "enginebay.testing"

#: Where pytest keeps the value of ``--backend``; another project's has another place.
OPTION = "enginebay_backend"

#: The tests that ``--backend`` names the backend of; its name keeps other runs from collecting it.
_TESTS = Path(__file__).with_name("conformance") / "command_line.py"


#: What becomes of a law, as an attribute of pytest's own report of it.
NOTED = "enginebay_law"

_OUTCOMES = "enginebay-outcomes"


class Outcomes:
    """What became of each law, wherever it ran: pytest-xdist runs them in several processes."""

    def __init__(self) -> None:
        self.noted: list[Any] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a law's report brings along."""
        noted = getattr(report, NOTED, None)
        if noted is not None:
            self.noted.append(noted)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what a backend's own tests may be given."""
    parser.getgroup("enginebay").addoption(
        "--conformance-report",
        metavar="DIR",
        help="write BACKEND.json and BACKEND.md about each backend that the conformance kit tested",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    """Add ``--backend`` where the kit is run by itself."""
    if any(word.partition("::")[0] == KIT for word in args):
        help_text = "the backend to test with the conformance kit"
        parser.getgroup("enginebay").addoption(
            "--backend", dest=OPTION, metavar="NAME", help=help_text
        )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run the kit for nobody, or towards a report that cannot be written."""
    config.pluginmanager.register(Outcomes(), _OUTCOMES)
    _make_folder(config.getoption("--conformance-report"))
    wanted = config.getoption(OPTION, default="")
    if wanted == "":
        return
    import enginebay as eb

    names = [status.name for status in eb.list_backends()]
    if wanted not in names:
        problem = f"no backend '{wanted}' is installed" if wanted else "no backend is named"
        known = ", ".join(names) or "none"
        raise pytest.UsageError(f"{problem}: pass --backend NAME; installed: {known}")


def _make_folder(folder: str | None) -> None:
    """Make the reports' folder before the laws run for minutes."""
    if folder is None:
        return
    try:
        if not folder:
            raise FileNotFoundError("its name is empty")
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as err:
        problem = f"'{folder}' cannot be a folder for reports: {err.strerror or err}"
        raise pytest.UsageError(f"{problem}; pass --conformance-report DIR") from err


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect the kit's own tests where it is run by itself."""
    if file_path == _TESTS and parent.config.getoption(OPTION, default=None):
        return pytest.Module.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the outcome of each law."""
    report = yield
    if _is_law(item):
        from enginebay.testing.conformance.report import note

        note(item, report)
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what each backend kept, and list what was left out with the reason."""
    outcomes = config.pluginmanager.get_plugin(_OUTCOMES)
    if not (outcomes and outcomes.noted) or hasattr(config, "workerinput"):
        return  # no law ran, or this is one of several processes, and the first one tells of all
    from enginebay.testing.conformance import report

    for found in report.reports(outcomes.noted):
        terminalreporter.section(f"conformance of {found.backend}")
        terminalreporter.write_line("\n".join(report.lines(found)))
        folder = config.getoption("--conformance-report")
        if folder:
            report.write(found, Path(folder))


def _is_law(item: pytest.Item) -> bool:
    """Whether an item is one of the kit's; imports the kit only where a class may be its."""
    families = getattr(getattr(item, "cls", None), "__mro__", ())
    return any(each.__module__.startswith(f"{KIT}.conformance") for each in families)
