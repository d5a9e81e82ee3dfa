"""Environment reports, and the functions that build them."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, strategies as st

from enginebay.environment import (
    Check,
    EnvReport,
    Tier,
    check_distributions,
    check_import,
    failed,
    passed,
    skipped,
    thread_counts,
)
from enginebay.errors import PluginError, one_line

if TYPE_CHECKING:
    from pathlib import Path

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a distribution's metadata, like pip."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, version: str | None, *headers: str) -> None:
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", *headers]
        if version is not None:
            lines.append(f"Version: {version}")
        (folder / "METADATA").write_text("\n".join(lines) + "\n")

    return install


def only(report: EnvReport) -> Check:
    [check] = report.checks
    return check


checks = st.builds(
    Check,
    tier=st.sampled_from(Tier),
    name=st.text(),
    status=st.sampled_from(["ok", "failed", "skipped"]),
    found=st.text(),
    wanted=st.text(),
    fix=st.text(),
    seconds=st.floats(0, 1e6),
)
reports = st.builds(EnvReport, st.lists(checks).map(tuple))


class TestReport:
    def test_tiers_come_in_the_order_they_are_checked(self):
        assert list(Tier) == ["metadata", "import", "device", "smoke"]

    def test_an_empty_report_is_ok(self):
        assert EnvReport().ok
        assert EnvReport().failed is None

    def test_constructors_make_a_report_with_a_single_check(self):
        assert passed(Tier.DEVICE, "cpu", "8 cores", seconds=0.5) == EnvReport(
            (Check(tier=Tier.DEVICE, name="cpu", status="ok", found="8 cores", seconds=0.5),)
        )
        assert skipped(Tier.DEVICE, "cuda", "not asked for") == EnvReport(
            (Check(tier=Tier.DEVICE, name="cuda", status="skipped", found="not asked for"),)
        )
        report = failed(Tier.DEVICE, "cuda", found="no device", wanted="one", fix="buy one")
        assert only(report) == Check(
            tier=Tier.DEVICE,
            name="cuda",
            status="failed",
            found="no device",
            wanted="one",
            fix="buy one",
        )

    def test_failed_is_the_first_failure(self):
        report = (
            passed(Tier.METADATA, "a", "1")
            + skipped(Tier.METADATA, "b", "not here")
            + failed(Tier.IMPORT, "c", found="broken")
            + failed(Tier.DEVICE, "d", found="broken too")
        )
        assert not report.ok
        assert report.failed is report.checks[2]

    def test_skipped_check_is_not_a_failure(self):
        assert skipped(Tier.DEVICE, "cuda", "not asked for").ok

    @given(reports, reports, reports)
    def test_sum_of_reports_has_every_check_in_order(self, one, two, three):
        assert (one + two) + three == one + (two + three)
        assert (one + two).checks == one.checks + two.checks
        assert (one + two).ok == (one.ok and two.ok)
        assert one + EnvReport() == EnvReport() + one == one

    @given(reports)
    def test_a_report_round_trips_through_json(self, report):
        assert msgspec.json.decode(msgspec.json.encode(report), type=EnvReport) == report

    def test_report_is_plain_json(self):
        report = passed(Tier.IMPORT, "engine", "engine 1.2")
        assert json.loads(msgspec.json.encode(report)) == {
            "checks": [
                {
                    "tier": "import",
                    "name": "engine",
                    "status": "ok",
                    "found": "engine 1.2",
                    "wanted": "",
                    "fix": "",
                    "seconds": 0.0,
                }
            ]
        }

    @pytest.mark.process
    def test_import_loads_no_heavy_packages(self):
        code = "import sys, enginebay.environment; print(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        heavy = {"numpy", "torch", "packaging", "importlib_metadata", "pluggy", "rich"}
        assert not heavy & set(done.stdout.split())


class TestDistributions:
    def test_installed_distribution_passes(self, install):
        install("engine-x", "1.31.1")
        assert check_distributions(["engine-x>=1.20"]) == passed(
            Tier.METADATA, "engine-x", "engine-x 1.31.1"
        )

    @pytest.mark.parametrize("name", ["engine-x", "Engine_X", "engine.x"])
    def test_a_name_may_be_spelled_as_pip_allows(self, install, name):
        install("engine-x", "1.0")
        assert check_distributions([name]).ok

    def test_missing_distribution_hints_at_its_installation(self):
        assert check_distributions(["engine-x>=1.20"]) == failed(
            Tier.METADATA,
            "engine-x",
            found="not installed",
            wanted="engine-x>=1.20",
            fix="pip install 'engine-x>=1.20'",
        )

    def test_too_old_distribution_hints_at_an_upgrade(self, install):
        install("engine-x", "1.10.0")
        assert check_distributions(["engine-x>=1.20"]) == failed(
            Tier.METADATA,
            "engine-x",
            found="engine-x 1.10.0",
            wanted="engine-x>=1.20",
            fix="pip install 'engine-x>=1.20'",
        )

    @pytest.mark.parametrize("version", ["1.20", "1.21.dev3", "1.20+cpu", "2.0rc1", "1!0.1"])
    def test_suitable_version_passes(self, install, version):
        install("engine-x", version)
        assert only(check_distributions(["engine-x>=1.20"])).found == f"engine-x {version}"
        assert check_distributions(["engine-x>=1.20"]).ok

    @pytest.mark.parametrize("version", ["1.20rc1", "1.9", "not.a.version"])
    def test_unsuitable_version_fails(self, install, version):
        install("engine-x", version)
        assert only(check_distributions(["engine-x>=1.20"])).found == f"engine-x {version}"
        assert not check_distributions(["engine-x>=1.20"]).ok

    def test_every_requirement_has_its_own_check(self, install):
        install("engine-x", "1.0")
        report = check_distributions(iter(["engine-x", "engine-y", "engine-z"]))
        assert [check.status for check in report.checks] == ["ok", "failed", "failed"]
        assert report.failed.name == "engine-y"

    def test_empty_requirements_make_an_empty_report(self):
        assert check_distributions([]) == EnvReport()

    def test_real_distribution_is_found_with_its_version(self):
        check = only(check_distributions(["pytest>=8"]))
        assert check.found == f"pytest {pytest.__version__}"

    @pytest.mark.parametrize("metadata", [None, "", "Metadata-Version: 2.1\nName: engine-x\n"])
    def test_distribution_without_metadata_or_version_fails(self, tmp_path, monkeypatch, metadata):
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "engine_x-1.0.dist-info").mkdir()
        if metadata is not None:
            (tmp_path / "engine_x-1.0.dist-info" / "METADATA").write_text(metadata)
        check = only(check_distributions(["engine-x"]))
        assert check.status == "failed"
        assert check.found in ("engine-x without metadata", "engine-x without a version")


class TestAlternatives:
    BOTH = "engine-x>=1.20 | engine-x-gpu>=1.20"

    @pytest.mark.parametrize("name", ["engine-x", "engine-x-gpu"])
    def test_any_alternative_passes(self, install, name):
        install(name, "1.22")
        assert check_distributions([self.BOTH]) == passed(Tier.METADATA, name, f"{name} 1.22")

    def test_suitable_alternative_passes_despite_an_unsuitable_alternative(self, install):
        install("engine-x", "1.0")
        install("engine-x-gpu", "1.22")
        assert only(check_distributions([self.BOTH])).found == "engine-x-gpu 1.22"

    def test_missing_alternatives_hint_at_the_first(self):
        assert check_distributions([self.BOTH]) == failed(
            Tier.METADATA,
            "engine-x",
            found="not installed",
            wanted="engine-x>=1.20 or engine-x-gpu>=1.20",
            fix="pip install 'engine-x>=1.20'",
        )

    def test_fix_upgrades_the_installed_alternative(self, install):
        install("engine-x-gpu", "1.0")
        assert check_distributions([self.BOTH]) == failed(
            Tier.METADATA,
            "engine-x-gpu",
            found="engine-x-gpu 1.0",
            wanted="engine-x>=1.20 or engine-x-gpu>=1.20",
            fix="pip install 'engine-x-gpu>=1.20'",
        )


class TestMarkersAndExtras:
    def test_a_requirement_for_other_machines_is_skipped(self):
        text = 'engine-x>=1; sys_platform == "amiga"'
        assert check_distributions([text]) == skipped(
            Tier.METADATA, "engine-x", f"not for this machine: {text}"
        )

    def test_alternative_for_other_machines_is_ignored(self):
        check = only(check_distributions(['engine-x; sys_platform == "amiga" | engine-y>=2']))
        assert (check.name, check.wanted) == ("engine-y", "engine-y>=2")

    def test_satisfied_marker_is_not_in_the_install_command(self):
        check = only(check_distributions(['engine-x[gpu]>=1; python_version >= "3"']))
        assert check.wanted == "engine-x[gpu]>=1"
        assert check.fix == "pip install 'engine-x[gpu]>=1'"

    def test_missing_requirement_of_an_extra_fails(self, install):
        install(
            "engine-x",
            "1.0",
            "Provides-Extra: gpu",
            "Provides-Extra: all",
            'Requires-Dist: engine-driver>=3; extra == "gpu"',
            'Requires-Dist: engine-x[gpu]; extra == "all"',
            'Requires-Dist: amiga-driver; sys_platform == "amiga" and extra == "gpu"',
            "Requires-Dist: always-needed",
        )
        assert check_distributions(["engine-x"]).ok
        for extra, missing in (("gpu", "engine-driver>=3"), ("all", "engine-x[gpu]")):
            check = only(check_distributions([f"engine-x[{extra}]"]))
            assert check.found == f"engine-x 1.0 without {missing}"
            assert check.fix == f"pip install 'engine-x[{extra}]'"
        install("engine-driver", "3.1")
        assert check_distributions(["engine-x[gpu]", "engine-x[all]"]).ok


class TestUnreadable:
    @pytest.mark.parametrize("text", ["engine-x>>1", "engine-x |", "", "engine x"])
    def test_unreadable_requirement_is_refused(self, text):
        with pytest.raises(PluginError) as caught:
            check_distributions([text])
        assert str(caught.value).startswith(f"invalid requirement '{text}': Expected ")
        assert "\n" not in str(caught.value)
        assert caught.value.hint == (
            "write it as in pyproject.toml: 'name>=1.2', alternatives separated by '|'"
        )

    def test_requirements_in_a_single_text_are_refused(self):
        with pytest.raises(PluginError) as caught:
            check_distributions("engine-x>=1")
        assert (
            str(caught.value) == "expected a sequence of requirements, found the text 'engine-x>=1'"
        )
        assert caught.value.hint == 'write ("engine-x>=1",)'


class TestImport:
    @pytest.fixture
    def module(self, tmp_path, monkeypatch):
        """Writes a module for one test, and returns its name."""
        monkeypatch.syspath_prepend(tmp_path)
        written = []

        def write(code: str) -> str:
            name = f"engine_of_{tmp_path.name}"
            (tmp_path / f"{name}.py").write_text(code)
            written.append(name)
            return name

        yield write
        for name in written:
            sys.modules.pop(name, None)

    def test_import_reports_the_version(self):
        check = only(check_import("msgspec"))
        assert (check.tier, check.status) == (Tier.IMPORT, "ok")
        assert check.found == f"msgspec {msgspec.__version__}"

    def test_import_of_a_module_without_a_version_passes(self, module):
        name = module("")
        assert only(check_import(name)).found == f"{name}, which has no __version__"

    def test_a_part_of_a_package_has_the_packages_version(self) -> None:
        assert only(check_import("msgspec.json")).found == f"msgspec.json {msgspec.__version__}"

    def test_version_is_not_read_by_the_getattr_of_a_package(self, module, monkeypatch):
        """Packages such as "cuda" warn about the access, or import more modules."""
        name = module(
            "import warnings\n"
            "__path__ = []\n"
            "def __getattr__(name):\n"
            "    if name == '__version__':\n"
            "        warnings.warn('ask a part of it', FutureWarning)\n"
            "    raise AttributeError(name)\n"
        )
        part = f"{name}.bindings"
        monkeypatch.setitem(sys.modules, part, ModuleType(part))
        importlib.import_module(name)
        assert only(check_import(part)).found == f"{part}, which has no __version__"

    def test_missing_module_fails_with_the_given_fix(self):
        report = check_import("no_such_engine", wanted="1.2 or newer", fix="pip install engine")
        check = report.failed
        assert check.found == "ModuleNotFoundError: No module named 'no_such_engine'"
        assert (check.wanted, check.fix) == ("1.2 or newer", "pip install engine")

    def test_a_missing_library_is_named(self, module):
        check = only(check_import(module("import ctypes; ctypes.CDLL('libengine.so.10')")))
        assert check.found == (
            "OSError: libengine.so.10: cannot open shared object file: No such file or directory"
        )

    @pytest.mark.parametrize(
        ("code", "found"),
        [
            ("raise ImportError('\\n\\n  first line \\nsecond')", "ImportError: first line"),
            ("raise RuntimeError('wrong ABI')", "RuntimeError: wrong ABI"),
            ("raise AssertionError", "AssertionError"),
            ("syntax error", "SyntaxError: invalid syntax (engine_of_"),
        ],
    )
    def test_any_import_error_is_one_line(self, module, code, found):
        check = only(check_import(module(code)))
        assert check.status == "failed"
        assert check.found.startswith(found)
        assert "\n" not in check.found

    def test_an_import_reports_its_duration(self, module):
        assert only(check_import(module("import time; time.sleep(0.02)"))).seconds >= 0.02
        assert only(check_import(module("import time; 1 / 0"))).seconds > 0


@pytest.mark.parametrize("start", ["", "__init__.py"])
def test_a_file_that_hides_an_installed_package_is_named(
    start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a config with the name of its engine, in the folder of a script."""
    installed = tmp_path / "site-packages" / "fuel"
    installed.mkdir(parents=True)
    if start:  # a namespace package has none
        (installed / start).touch()
    (tmp_path / "fuel.py").touch()
    (tmp_path / "alone.py").touch()
    for folder in (installed.parent, tmp_path):
        monkeypatch.syspath_prepend(folder)
    fuel, alone = map(importlib.import_module, ("fuel", "alone"))
    try:
        hidden = f"'{tmp_path}/fuel.py' hides the installed package fuel, rename it: "
        with pytest.raises(AttributeError) as no_name:
            _ = fuel.Session
        assert one_line(no_name.value) == (
            f"AttributeError: {hidden}module 'fuel' has no attribute 'Session'"
        )
        with pytest.raises(ImportError) as no_module:
            importlib.import_module("fuel.compiler")
        assert one_line(no_module.value).startswith(f"ModuleNotFoundError: {hidden}No module named")
        with pytest.raises(AttributeError) as own:
            _ = alone.Session
        assert one_line(own.value) == "AttributeError: module 'alone' has no attribute 'Session'"
    finally:
        del sys.modules["fuel"], sys.modules["alone"]


def test_an_installed_package_hides_nothing() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = msgspec.Session
    assert one_line(caught.value).startswith("AttributeError: module 'msgspec' has no attribute")


@pytest.mark.parametrize(
    ("cores", "counts"), [(1, (1,)), (2, (1, 2)), (3, (1, 3)), (4, (1, 2, 4)), (96, (1, 48, 96))]
)
def test_thread_counts_are_of_the_cores_that_the_process_may_use(
    monkeypatch: pytest.MonkeyPatch, cores: int, counts: tuple[int, ...]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert thread_counts() == counts


def test_thread_counts_without_an_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert thread_counts()[-1] == os.cpu_count()
