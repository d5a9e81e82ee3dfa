"""The kit's command line, its reports, and opting out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import distribution
from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb
from enginebay_testing import Conformance, temporary_backend, xfail
from enginebay_testing.command_runs import environment
from enginebay_testing.conformance.suite import laws

from .broken import BROKEN, source

if TYPE_CHECKING:
    from pathlib import Path

SUBCLASS = """\
import pytest
from enginebay_testing import Conformance, xfail

class TestMine(Conformance):
    @pytest.fixture
    def backend(self):
        return "loopback"

    test_scalars_go_in_and_come_out = xfail(reason="no scalars here")
    test_every_dtype_comes_back_as_it_went_in = xfail(reason="no dtypes here")
"""


def run(
    folder: Path, *words: str, plugin: str = "enginebay_testing"
) -> subprocess.CompletedProcess[str]:
    """Run pytest in a separate process, which finds the same modules."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", plugin, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )


def findings(folder: Path, backend: str = "loopback") -> dict[str, tuple[str, str]]:
    document = json.loads((folder / f"{backend}.json").read_text())
    assert document["schema"] == 1
    return {
        f"{one['law']}[{one['case']}]": (one["outcome"], one["reason"])
        for one in document["findings"]
    }


@pytest.mark.slow
def test_the_kit_runs_from_the_command_line(tmp_path: Path, loopback: str) -> None:
    chosen = "scalars or float32 or bfloat16 or installed or regardless"
    ran = run(tmp_path, "--backend", loopback, "--conformance-report", "out", "-k", chosen)
    assert ran.returncode == 0, ran.stdout
    reason = "the backend lists no bfloat16 among its dtypes, but passes with it"
    assert "conformance of loopback" in ran.stdout
    assert "3 held, 1 skipped" in ran.stdout
    assert f"every dtype comes back as it went in (bfloat16): {reason}" in ran.stdout
    assert "  also passes: bfloat16; they may be listed" in ran.stdout
    assert findings(tmp_path / "out") == {
        "test_it_is_installed_once[]": ("held", ""),
        "test_scalars_go_in_and_come_out[]": ("held", ""),
        "test_every_dtype_comes_back_as_it_went_in[float32]": ("held", ""),
        "test_every_dtype_comes_back_as_it_went_in[bfloat16]": ("skipped", reason),
    }
    claims = json.loads((tmp_path / "out" / "loopback.json").read_text())["claims"]
    info = eb.get_backend(loopback).info
    assert (claims["irs"], claims["dtypes"]) == (list(info.irs), list(info.dtypes))
    page = (tmp_path / "out" / "loopback.md").read_text()
    assert page.startswith("![enginebay conformance: 3 held, 1 skipped](https://img.shields.io/")
    assert "temporary-loopback 0, engine 1." in page
    assert f"extreme values may be refused. | 1 held, 1 skipped | {reason} |" in page
    assert "\n| loopback | `temporary-loopback` |  | 1." in page  # the row of the catalogue
    badge = json.loads((tmp_path / "out" / "loopback-badge.json").read_text())
    assert re.fullmatch(r"laws: 3 of 3, \d+ not run", badge.pop("message"))
    assert badge == {"schemaVersion": 1, "label": "enginebay", "color": "yellow"}


@pytest.mark.slow
def test_a_broken_law_says_what_is_wrong(tmp_path: Path) -> None:
    change = BROKEN["its outputs are one buffer"].change
    with temporary_backend("broken", source(change)):
        ran = run(tmp_path, "--backend", "broken", "-k", "returned_never_changes")
    line = "broken: what was returned never changes: AssertionError: output 'sum' has changed"
    assert line in ran.stdout


@pytest.mark.slow
def test_an_engine_that_runs_nothing_breaks_one_law(tmp_path: Path) -> None:
    change = BROKEN["it runs no model at all"].change
    with temporary_backend("broken", source(change)):
        ran = run(tmp_path, "--backend", "broken", "-k", "green or scalars or strides or moved")
    assert "1 broken, 3 skipped" in ran.stdout
    assert "skipped: any strides will do: check-env, smoke: build, run, compare: " in ran.stdout


def test_plugins_that_see_every_backend_are_named(tmp_path: Path, loopback: str) -> None:
    source = (
        "import enginebay as eb\n"
        "@eb.hookimpl(wrapper=True)\n"
        "def to_backend(request):\n    return (yield)\n"
    )
    with temporary_backend("log", source, group="enginebay.plugins"):
        ran = run(tmp_path, "--backend", loopback, "-k", "says_what_it")
    assert "  with the plugin log of temporary-log 0, which is for every backend\n" in ran.stdout


def test_in_several_processes_the_report_is_whole_and_in_order(
    tmp_path: Path, loopback: str
) -> None:
    words = (
        "-k",
        "installed or says_what_it or documented_field or bfloat16",
        "--conformance-report",
    )
    ran = run(tmp_path, "--backend", loopback, "-n", "2", "--dist", "load", *words, "out")
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.count("conformance of loopback") == 1
    assert {name.partition("[")[0] for name in findings(tmp_path / "out")} == {
        "test_every_flag_is_a_documented_field",
        "test_every_dtype_comes_back_as_it_went_in",
        "test_it_is_installed_once",
        "test_it_says_what_it_is",
    }
    assert run(tmp_path, "--backend", loopback, *words, "alone").returncode == 0
    assert list(findings(tmp_path / "out")) == list(findings(tmp_path / "alone"))


def test_a_law_in_which_the_engine_ends_the_process_is_broken(tmp_path: Path) -> None:
    change = """
        @eb.hookimpl
        def rewriters(request):
            import os
            os._exit(7)
    """
    chosen = "rewriters_can_be_listed or installed_once or documented_field"
    words = ("-n", "1", "-k", chosen, "--conformance-report", "out")
    reason = "the test has not ended: its process crashed or was interrupted"
    with temporary_backend("broken", source(change)):
        ran = run(tmp_path, "--backend", "broken", *words)
    assert ran.returncode == 1
    assert "2 held, 1 broken" in ran.stdout
    assert f"broken: its rewriters can be listed: {reason}" in ran.stdout
    assert findings(tmp_path / "out", "broken") == {
        "test_it_is_installed_once[]": ("held", ""),
        "test_every_flag_is_a_documented_field[]": ("held", ""),
        "test_its_rewriters_can_be_listed[]": ("broken", reason),
    }


def test_the_kit_runs_with_other_defaults(tmp_path: Path, loopback: str) -> None:
    words = ("-k", "installed or scalars", "--conformance-report", "out")
    ran = run(tmp_path, "--backend", loopback, "--params", "gain=2", *words)
    assert ran.returncode == 0, ran.stdout
    assert "conformance of loopback-with-params" in ran.stdout
    reason = "check-env, smoke: build, run, compare: wrong by 2"
    assert f"scalars go in and come out: {reason}" in ran.stdout
    document = json.loads((tmp_path / "out" / "loopback-with-params.json").read_text())
    assert document["backend"] == "loopback-with-params"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("gain", "--params gain: expected FIELD=VALUE"),
        ("gain=x", "does not fit LoopbackParams.gain: expected float"),
        ("loss=1", "--params: unrecognized arguments: --loss 1"),
    ],
)
def test_wrong_defaults_are_refused(tmp_path: Path, loopback: str, word: str, message: str) -> None:
    ran = run(tmp_path, "--backend", loopback, "--params", word)
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert message in ran.stderr


def test_a_device_that_refuses_a_model_skips_the_law(tmp_path: Path, loopback: str) -> None:
    changed = """
        @eb.hookimpl
        def build_wrapper(request):
            from enginebay.errors import FallbackError
            if request.inputs[0].dims == ():
                raise FallbackError("it takes no scalars")
            return Wrapper(request)
    """
    with temporary_backend("broken", source(changed)):
        ran = run(tmp_path, "--backend", "broken", "-k", "installed or scalars")
    assert ran.returncode == 0, ran.stdout
    assert "1 held, 1 skipped" in ran.stdout
    assert "the device refuses the model: it takes no scalars" in ran.stdout


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--backend=", "ERROR: no backend was specified: pass --backend NAME; installed: "),
        ("--backend=nope", "ERROR: no backend 'nope' is installed: pass --backend NAME; "),
    ],
)
def test_an_unknown_backend_is_refused(
    tmp_path: Path, loopback: str, word: str, message: str
) -> None:
    ran = run(tmp_path, word)
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert message in ran.stderr
    assert "loopback" in ran.stderr


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        ("taken", "'taken' cannot be a folder for reports: File exists"),
        ("taken/deeper", "'taken/deeper' cannot be a folder for reports: Not a directory"),
        ("", "'' cannot be a folder for reports: the path is empty"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_before_any_law(
    tmp_path: Path, loopback: str, folder: str, problem: str
) -> None:
    (tmp_path / "taken").touch()
    ran = run(tmp_path, "--backend", loopback, f"--conformance-report={folder}")
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert (ran.stderr.strip(), ran.stdout) == (
        f"ERROR: {problem}; pass --conformance-report DIR",
        "",
    )


def test_a_report_may_go_into_a_new_folder_in_a_new_folder(tmp_path: Path, loopback: str) -> None:
    place = tmp_path / "new" / "folder"
    ran = run(
        tmp_path, "--backend", loopback, "--conformance-report", str(place), "-k", "installed"
    )
    assert ran.returncode == 0, ran.stdout
    assert set(findings(place)) == {"test_it_is_installed_once[]"}


def test_pytest_loads_the_plugin_only_where_it_is_named() -> None:
    assert not distribution("enginebay").entry_points.select(group="pytest11")


def test_a_project_with_its_own_option_backend_loads_the_plugin_in_its_conftest(
    tmp_path: Path,
) -> None:
    (tmp_path / "conftest.py").write_text(
        "pytest_plugins = ['enginebay_testing']\n\n\n"
        "def pytest_addoption(parser):\n    parser.addoption('--backend')\n"
    )
    (tmp_path / "test_it.py").write_text(
        "def test_it(request):\n    assert request.config.getoption('--backend') == 'theirs'\n"
    )
    words = ("--backend", "theirs", "--conformance-report", "out", "test_it.py")
    ran = run(tmp_path, *words, plugin="no:doctest")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "out").is_dir()


def test_an_opt_out_fails_if_the_law_passes(tmp_path: Path, loopback: str) -> None:
    (tmp_path / "test_mine.py").write_text(SUBCLASS)
    chosen = "scalars or int64 or bfloat16"
    ran = run(tmp_path, "test_mine.py", "--conformance-report", "out", "-k", chosen)
    assert ran.returncode == 1
    found = findings(tmp_path / "out")
    outcome, reason = found["test_scalars_go_in_and_come_out[]"]
    assert (outcome, "XPASS(strict)" in reason) == ("broken", True)
    assert found["test_every_dtype_comes_back_as_it_went_in[bfloat16]"][0] == "skipped"


def test_a_law_that_a_backend_cannot_keep_is_excused_with_the_reason(
    tmp_path: Path, loopback: str
) -> None:
    from .broken import BROKEN, source

    (tmp_path / "test_mine.py").write_text(SUBCLASS.replace('"loopback"', '"broken"'))
    change = BROKEN["its scalars have a dimension"].change
    with temporary_backend("broken", source(change)):
        ran = run(tmp_path, "test_mine.py", "-k", "scalars")
    assert ran.returncode == 0, ran.stdout
    assert "1 excused" in ran.stdout
    assert "excused: scalars go in and come out: no scalars here" in ran.stdout


def test_a_law_cannot_be_replaced() -> None:
    with pytest.raises(TypeError) as caught:
        type("TestMine", (Conformance,), {"test_any_strides_will_do": None})
    assert str(caught.value) == (
        "TestMine overrides the conformance test 'test_any_strides_will_do'; to opt out, write "
        "test_any_strides_will_do = xfail(reason='why')"
    )


def test_only_laws_can_be_opted_out_of() -> None:
    with pytest.raises(
        TypeError, match="TestMine opts out of 'test_any', which is no conformance test"
    ):
        type("TestMine", (Conformance,), {"test_any": xfail(reason="it is too hard")})


def test_opting_out_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="requires a reason"):
        xfail(reason=" ")


def test_the_fixture_that_names_the_backend_is_missing(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "from enginebay_testing import Conformance\n\n\nclass TestMine(Conformance):\n    pass\n"
    )
    ran = run(tmp_path, "test_mine.py", "-k", "installed")
    assert "TestMine requires a fixture 'backend' that returns the backend's name" in ran.stdout


def test_every_law_is_one_sentence() -> None:
    found: list[Any] = laws()
    assert len({law.name for law in found}) == len(found) >= 40
    for law in found:
        assert law.sentence.endswith("."), law
        assert len(law.sentence) < 100, law
    assert list(dict.fromkeys(law.family for law in found)) == [
        *("discovery", "environment", "params", "numbers"),
        *("inference", "artifacts", "processes", "rewriting"),
    ]
