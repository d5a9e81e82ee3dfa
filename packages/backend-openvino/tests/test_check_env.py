"""check-env: real tiers, real metadata."""

from __future__ import annotations

import openvino
import pytest

from enginebay.errors import ParamsError
from enginebay_testing.command_runs import call_command

CORE = openvino.Core()
HAS_GPU = any(device.startswith("GPU") for device in CORE.available_devices)
no_gpu = pytest.mark.skipif(HAS_GPU, reason="OpenVINO offers a GPU here")


def install(folder, monkeypatch, name, version):
    """Put a distribution's metadata on the path, as pip leaves it."""
    info = folder / "site" / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(folder / "site")


def test_all_four_tiers_pass(backend):
    report = backend.check_env()
    assert report.ok, report
    assert {check.tier for check in report.checks} == {"metadata", "import", "device", "smoke"}
    found = {check.name: check.found for check in report.checks}
    assert found["CPU"] == CORE.get_property("CPU", "FULL_DEVICE_NAME")
    assert found["build, run, compare"].startswith(f"openvino {backend.get_version()} on CPU")


def test_two_installed_wheels_fail_the_check(backend, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "openvino-nightly", "2026.5.0.dev1")
    report = backend.check_env()
    check = report.failed
    assert (check.tier, check.name) == ("metadata", "one openvino")
    assert check.found == f"openvino {backend.get_version()} and openvino-nightly 2026.5.0.dev1"
    assert check.wanted == "only one of the two packages: both write into the folder openvino/"
    assert check.fix == "pip uninstall -y openvino openvino-nightly && pip install openvino"
    assert [check.status for check in report.checks[-3:]] == ["skipped"] * 3


def test_an_old_wheel_fails_the_check(backend, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "openvino", "2022.3.0")
    check = backend.check_env().failed
    assert check.found == "openvino 2022.3.0"
    assert check.fix.startswith("pip install 'openvino>=")


def test_a_wheel_that_cannot_be_imported_fails_the_check(backend, tmp_path, monkeypatch):
    package = tmp_path / "site" / "openvino"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('libtbb.so.12: cannot open')")
    monkeypatch.syspath_prepend(tmp_path / "site")
    check = backend.check_env().failed
    assert (check.tier, check.name) == ("import", "openvino")
    assert check.found == "ImportError: libtbb.so.12: cannot open"
    assert check.fix == "pip install --force-reinstall openvino"


@no_gpu
def test_a_missing_device_fails_the_check(backend):
    check = backend.check_env(backend.Params(device="gpu")).failed
    assert (check.tier, check.name, check.wanted) == ("device", "GPU", "GPU")
    assert check.found == f"OpenVINO finds {', '.join(CORE.available_devices)}"
    assert "intel-opencl-icd" in check.fix


def test_an_unknown_device_is_refused_before_the_check(backend):
    with pytest.raises(ParamsError, match=r"^unknown device 'abacus' for OpenVINO") as caught:
        backend.Params(device="abacus")
    assert caught.value.hint.startswith("this machine has ")
    assert backend.Params(device="gpu.1").device == "gpu.1"


def test_auto_reports_the_devices_it_selects_from(backend):
    report = backend.check_env(backend.Params(device="auto"))
    assert report.ok, report
    found = {check.name: check.found for check in report.checks}
    assert found["AUTO"] == f"selects one of {', '.join(CORE.available_devices)}"


def test_a_precision_is_checked_against_the_device(backend):
    report = backend.check_env(backend.Params(precision="bf16"))
    (check,) = [check for check in report.checks if check.name == "bf16"]
    capable = "BF16" in CORE.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    assert check.status == ("ok" if capable else "failed")


def test_the_command_prints_the_fix(capfd, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "openvino-nightly", "2026.5.0.dev1")
    ran = call_command(capfd, "check-env", "openvino")
    assert ran.code == 3
    assert "pip uninstall -y openvino openvino-nightly" in ran.out
    ran = call_command(capfd, "check-env", "openvino", "--json")
    assert ran.code == 3
    assert ran.document["schema"] == 1
