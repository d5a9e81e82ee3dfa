"""check-env: real tiers, real metadata, real environments that lack something."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import onnxruntime
import pytest

import enginebay as eb
import enginebay_onnxruntime
from enginebay.environment import install_command
from enginebay.errors import ParamsError
from enginebay_testing.command_runs import call_command

HAS_CUDA = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
no_cuda = pytest.mark.skipif(HAS_CUDA, reason="this build of ONNX Runtime has CUDA")


@pytest.fixture
def distributions(tmp_path, monkeypatch):
    """Put distributions' metadata on the path, as pip leaves it."""

    def distributions(**versions):
        for name, version in versions.items():
            info = tmp_path / "site" / f"{name}-{version}.dist-info"
            info.mkdir(parents=True)
            name = name.replace("_", "-")
            (info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
        monkeypatch.syspath_prepend(tmp_path / "site")

    return distributions


def test_all_four_tiers_pass(backend):
    report = backend.check_env()
    assert report.ok, report
    assert {check.tier for check in report.checks} == {"metadata", "import", "device", "smoke"}
    found = {check.name: check.found for check in report.checks}
    assert found["onnxruntime"] == f"onnxruntime {onnxruntime.__version__}"
    assert found["CPUExecutionProvider"] == "compiled in"
    assert found["build, run, compare"].startswith(
        f"onnxruntime {onnxruntime.__version__} on CPUExecutionProvider, worst difference"
    )
    assert backend.is_available()


def test_two_installed_wheels_fail_the_check(backend, distributions):
    distributions(onnxruntime="1.31.1", onnxruntime_gpu="1.31.0")
    report = backend.check_env()
    check = report.failed
    assert (check.tier, check.name) == ("metadata", "one onnxruntime")
    assert check.found == "onnxruntime 1.31.1 and onnxruntime-gpu 1.31.0"
    assert check.wanted == "only one of them: both write into the folder onnxruntime/"
    assert check.fix == (
        "pip uninstall -y onnxruntime onnxruntime-gpu && "
        "pip install onnxruntime-gpu  # or onnxruntime, for a machine without a GPU"
    )
    assert [check.status for check in report.checks[-3:]] == ["skipped"] * 3


def test_an_old_wheel_fails_the_check(backend, distributions):
    distributions(onnxruntime="1.10.0")
    check = backend.check_env().failed
    assert check.found == "onnxruntime 1.10.0"
    assert check.fix == "pip install 'onnxruntime>=1.22'"


def test_a_wheel_that_cannot_be_imported_fails_the_check(backend, tmp_path, monkeypatch):
    package = tmp_path / "site" / "onnxruntime"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('libfoo.so.1: cannot open')")
    monkeypatch.syspath_prepend(tmp_path / "site")
    check = backend.check_env().failed
    assert (check.tier, check.name) == ("import", "onnxruntime")
    assert check.found == "ImportError: libfoo.so.1: cannot open"
    assert check.fix == install_command("enginebay-onnxruntime[cpu]", "--force-reinstall")


@pytest.mark.slow
def test_an_import_that_hangs_fails_the_check(backend, tmp_path, monkeypatch, soon):
    package = tmp_path / "site" / "onnxruntime"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import time\ntime.sleep(600)")
    monkeypatch.syspath_prepend(tmp_path / "site")
    check = backend.check_env(timeout=3 * soon).failed
    assert check.tier == "import"
    assert f"{3 * soon} s" in check.found


@no_cuda
def test_a_build_without_cuda_fails_the_check(backend):
    report = backend.check_env(backend.Params(device="cuda"))
    check = report.failed
    assert (check.tier, check.name) == ("device", "CUDAExecutionProvider")
    assert check.found.startswith("a build with ")
    assert check.fix == install_command("enginebay-onnxruntime[gpu]", "--force-reinstall")
    assert report.checks[-1].status == "skipped"


@pytest.mark.skipif(
    "AzureExecutionProvider" not in onnxruntime.get_available_providers(),
    reason="this build has no AzureExecutionProvider",
)
def test_a_provider_that_runs_no_node_fails_the_smoke_check(backend):
    report = backend.check_env(backend.Params(providers=("AzureExecutionProvider",)))
    assert report.failed.tier == "smoke"
    assert "strict mode forbids the CPU" in report.failed.found


def test_an_unknown_provider_is_refused(backend):
    with pytest.raises(ParamsError, match=r"^unknown provider 'MyExecutionProvider'"):
        backend.check_env(backend.Params(providers=("MyExecutionProvider",)))


def test_the_command_exits_with_0_if_all_checks_pass(capfd):
    ran = call_command(capfd, "check-env", "onnxruntime", "--json")
    assert ran.code == 0
    (result,) = ran.document["backends"]
    assert result["ok"] is True
    assert {"fix", "next"}.isdisjoint(ran.document)


@no_cuda
def test_the_command_exits_with_3_if_a_named_backend_fails(capfd):
    code, out, _ = call_command(capfd, "check-env", "onnxruntime", "--device", "cuda")
    assert code == 3
    assert "onnxruntime: NOT OK" in out
    fix = install_command("enginebay-onnxruntime[gpu]", "--force-reinstall")
    assert f"fix: {fix}" in out
    document = call_command(
        capfd, "check-env", "onnxruntime", "--device", "cuda", "--json"
    ).document
    assert document["fix"].startswith(fix)
    assert document["next"][: len(shlex.split(fix))] == shlex.split(fix)


# -- an environment without ONNX Runtime ----------------------------------------------------------


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """A Python that has all packages of this one, but no onnxruntime."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    installed = Path(sysconfig.get_path("purelib"))
    for entry in installed.iterdir():
        if not entry.name.startswith("onnxruntime"):
            (site / entry.name).symlink_to(entry)
    ours = {Path(module.__file__).parents[1] for module in (eb, enginebay_onnxruntime)}
    (site / "ours.pth").write_text("\n".join(str(path) for path in ours - {installed}))
    return folder / "bin" / "python"


def run(python, *arguments):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [python, "-m", "enginebay", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def test_a_missing_onnxruntime_fails_the_check(bare_python):
    done = run(bare_python, "check-env", "onnxruntime")
    assert done.returncode == 3, done
    assert "metadata  FAILED   onnxruntime: not installed" in done.stdout
    assert "expected: onnxruntime>=1.22 or onnxruntime-gpu>=1.22" in done.stdout
    assert "fix: pip install 'onnxruntime>=1.22'" in done.stdout


def test_the_command_without_names_exits_with_0(bare_python):
    done = run(bare_python, "check-env")
    assert done.returncode == 0, done
    assert "onnxruntime: NOT OK" in done.stdout


def test_loading_without_onnxruntime_tells_how_to_install_it(bare_python, write, tmp_path):
    model = write("(float[n] x) => (float[n] y) { y = Relu(x) }")
    eb.convert(model, backend="onnxruntime", work_dir=tmp_path / "artifact")
    code = f"import enginebay; enginebay.load({str(tmp_path / 'artifact')!r})"
    done = subprocess.run([bare_python, "-c", code], capture_output=True, text=True, check=False)
    error = "ONNX Runtime cannot be imported: No module named 'onnxruntime'"
    assert done.stderr.strip().splitlines()[-2:] == [
        f"enginebay.errors.MissingDependencyError: {error}",
        f"hint: {install_command('enginebay-onnxruntime[cpu]')}, or [gpu]",
    ]
