"""Each thing that can be missing is told apart, with the command to type."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import enginebay as eb
from enginebay.environment import Check, Tier, install_command
from enginebay.hooks import CheckEnvRequest
from enginebay_tensorrt import environment
from enginebay_tensorrt.params import TensorrtParams, TensorrtRtxParams

pytestmark = pytest.mark.process  # a fork has the stand-in for CUDA
HAS_RTX = find_spec("tensorrt_rtx_bindings") is not None
#: The installed product: TensorRT for RTX whole, or the bindings of TensorRT 10 or 11 alone.
INSTALLED = TensorrtRtxParams if HAS_RTX else TensorrtParams
needs_rtx = pytest.mark.skipif(not HAS_RTX, reason="TensorRT for RTX is not installed")
needs_tensorrt = pytest.mark.skipif(HAS_RTX, reason="about the bindings of TensorRT 10 and 11")


@pytest.fixture(scope="session")
def is_eleven() -> bool:
    """Whether the bindings are TensorRT 11's."""
    import stub_libraries

    return stub_libraries.wanted_major() == 11


def checks(
    tier: Tier,
    *,
    with_custom_ops: bool = False,
    kind: type[Any] = INSTALLED,
    **params: Any,
) -> tuple[Check, ...]:
    request = CheckEnvRequest(
        tier=tier,
        params=kind(**params),
        with_custom_ops=with_custom_ops,
        work_dir=Path(),
    )
    return environment.check_tier(request).checks


def failure(tier: Tier, **params: Any) -> Check:
    return next(check for check in checks(tier, **params) if check.status == "failed")


@pytest.fixture
def wheels(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The installed distributions and their versions."""
    installed: dict[str, str] = {}
    monkeypatch.setattr(environment, "installed_version", installed.get)
    return installed


# -- metadata -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "wheel"),
    [(TensorrtParams, "tensorrt-cu13"), (TensorrtRtxParams, "tensorrt-rtx-cu13")],
)
def test_one_pair_of_wheels_passes(wheels: dict[str, str], kind: type[Any], wheel: str) -> None:
    assert checks(Tier.METADATA, kind=kind) == ()
    wheels.update({f"{wheel}-bindings": "11.4.0", f"{wheel}-libs": "11.4.0"})
    assert checks(Tier.METADATA, kind=kind) == ()


@pytest.mark.parametrize("part", ["bindings", "libs"])
@pytest.mark.parametrize(
    ("kind", "name", "extra"),
    [(TensorrtParams, "tensorrt", "cu13"), (TensorrtRtxParams, "tensorrt-rtx", "rtx")],
)
def test_wheels_for_two_versions_of_cuda_fail(
    wheels: dict[str, str], kind: type[Any], name: str, extra: str, part: str
) -> None:
    second = f"{name}-cu12-{part}"
    wheels.update({f"{name}-cu13-bindings": "11.4.0", second: "10.16.1"})
    check = failure(Tier.METADATA, kind=kind)
    assert check.name == "one CUDA"
    assert f"{name}-cu13-bindings 11.4.0" in check.found
    assert f"{second} 10.16.1" in check.found
    assert check.fix.startswith(f"pip uninstall -y {name}-cu13 {name}-cu13-bindings")
    assert check.fix.endswith(install_command(f"enginebay-tensorrt[{extra}]"))


def test_both_products_together_pass(wheels: dict[str, str]) -> None:
    wheels.update({"tensorrt-cu13-bindings": "11.4.0", "tensorrt-rtx-cu12-bindings": "1.7.1"})
    assert checks(Tier.METADATA, kind=TensorrtParams) == ()
    assert checks(Tier.METADATA, kind=TensorrtRtxParams) == ()


@pytest.mark.parametrize(
    ("kind", "name", "index"),
    [
        (TensorrtParams, "tensorrt", " --extra-index-url https://pypi.nvidia.com"),
        (TensorrtRtxParams, "tensorrt-rtx", ""),
    ],
)
def test_bindings_and_libraries_of_two_versions_fail(
    wheels: dict[str, str], kind: type[Any], name: str, index: str
) -> None:
    wheels.update({f"{name}-cu12-bindings": "1.8.0", f"{name}-cu12-libs": "1.7.1"})
    check = failure(Tier.METADATA, kind=kind)
    assert check.name == "one version"
    assert check.fix == (
        f"pip install --force-reinstall '{name}-cu12-bindings==1.8.0' "
        f"'{name}-cu12-libs==1.8.0'{index}"
    )


def test_missing_wheels_are_left_to_cores_check(monkeypatch: pytest.MonkeyPatch) -> None:
    from enginebay.environment import check_distributions

    requirements = eb.get_backend(INSTALLED.product.backend).info.runtime_distributions
    assert check_distributions(requirements).ok  # the bindings alone will do for metadata
    missing = check_distributions([text.replace("tensorrt", "absent") for text in requirements])
    assert missing.failed is not None
    assert missing.failed.found == "not installed"


# -- import ---------------------------------------------------------------------------------------


def in_a_child(stand_ins_too: bool, code: str) -> str:
    """Run code where the real bindings are found, with the stand-ins or without any library."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [path for path in paths if stand_ins_too or not path.endswith("fake")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(kept)}
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


IMPORT = """
from pathlib import Path
from enginebay.environment import Tier
from enginebay.hooks import CheckEnvRequest
from enginebay_tensorrt.environment import check_tier
from enginebay_tensorrt.params import *
params = TensorrtParams()
request = CheckEnvRequest(
    tier=Tier.IMPORT, params=params, with_custom_ops=False, work_dir=Path()
)
for check in check_tier(request).checks:
    print(check.status, check.name, check.found, check.fix, sep="|")
"""


@needs_tensorrt
def test_bindings_without_libraries_fail(is_eleven: bool) -> None:
    """NVIDIA's bindings as they are on a machine that has nothing else of TensorRT."""
    first, second = in_a_child(False, IMPORT).splitlines()
    major, wheel = (11, "cu13-libs==11.4.0.106") if is_eleven else (10, "cu12-libs==10.16.1.11")
    status, name, found, fix = first.split("|")
    assert (status, name) == ("failed", "the libraries of TensorRT")
    assert found.startswith("the bindings, but not libnv")
    assert found.endswith(f".so.{major}")
    assert fix == f"pip install 'tensorrt-{wheel}' --extra-index-url https://pypi.nvidia.com"
    assert second.startswith("ok|cuda.bindings.runtime|")


@needs_tensorrt
def test_a_conversion_without_libraries_names_check_env() -> None:
    told = in_a_child(
        False,
        "from enginebay_tensorrt import library, params\n"
        "try: library.get_library(params.TensorrtParams())\n"
        "except Exception as err: print(type(err).__name__, err, err.hint, sep='|')",
    )
    kind, text, hint = told.strip().split("|")
    assert kind == "MissingDependencyError"
    assert text.startswith(
        "the Python bindings of TensorRT are installed but cannot be imported: libnv"
    )
    assert hint == "enginebay check-env tensorrt"


@needs_rtx
def test_a_complete_installation_passes(stand_ins: Any) -> None:
    found = checks(Tier.IMPORT, precision="int8")
    assert [(check.status, check.name) for check in found] == [
        ("ok", "tensorrt_rtx"),
        ("ok", "parser and builder"),
        ("ok", "cuda.bindings.runtime"),
        ("ok", "onnxruntime.quantization"),
    ]
    assert re.fullmatch(
        r"built an engine of [\d,]+ bytes for Ampere and newer, without a GPU", found[1].found
    )
    assert [check.name for check in checks(Tier.IMPORT, precision="bf16")][-1] == "onnx_ir"


@needs_rtx
def test_a_capability_that_the_builder_lacks_fails(stand_ins: Any) -> None:
    check = failure(Tier.IMPORT, compute_capability=("sm90",))
    assert check.name == "parser and builder"
    assert check.found.startswith(
        "compute_capability 'sm90' is not supported by TensorRT for RTX 1.7.1.116"
    )


@needs_rtx
def test_an_engine_for_this_gpu_is_not_built_by_the_check(stand_ins: Any) -> None:
    found = checks(Tier.IMPORT, compute_capability=("current",))
    assert [check.name for check in found] == ["tensorrt_rtx", "cuda.bindings.runtime"]


@pytest.mark.parametrize(
    ("kind", "name"), [(TensorrtParams, "tensorrt"), (TensorrtRtxParams, "tensorrt-rtx")]
)
def test_the_fix_names_cuda_bindings_for_the_wheels(
    wheels: dict[str, str], monkeypatch: pytest.MonkeyPatch, kind: type[Any], name: str
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", None)

    def fix() -> str:
        (check,) = (c for c in checks(Tier.IMPORT, kind=kind) if c.name == "cuda.bindings.runtime")
        return check.fix

    assert fix() == "pip install 'cuda-bindings==13.*'"
    wheels[f"{name}-cu12-bindings"] = "10.16.1"
    assert fix() == "pip install 'cuda-bindings==12.*'"


# -- device ---------------------------------------------------------------------------------------


@needs_rtx
@pytest.mark.parametrize("wanted", [(), ("current",)])
def test_a_gpu_that_tensorrt_for_rtx_does_not_support_is_named(
    machine: Any, wanted: tuple[str, ...]
) -> None:
    machine.capability = (9, 0)
    check = failure(Tier.DEVICE, compute_capability=wanted)
    assert (check.found, check.fix) == ("NVIDIA Fake 1, sm 9.0", "use the backend tensorrt")


def test_a_working_gpu_passes(machine: Any) -> None:
    driver, gpu = checks(Tier.DEVICE, device="cuda:1")
    assert (driver.name, driver.found) == ("driver", "CUDA 13.0")
    assert (gpu.name, gpu.found) == ("cuda:1", "NVIDIA Fake 2, sm 8.9")


def test_a_missing_driver_fails(machine: Any) -> None:
    machine.driver = 0
    check = failure(Tier.DEVICE)
    assert (check.name, check.found) == ("driver", "no NVIDIA driver (libcuda.so.1)")
    assert "--gpus all" in check.fix


@needs_tensorrt
def test_a_driver_that_is_too_old_fails(machine: Any, is_eleven: bool) -> None:
    machine.driver = 12080 if is_eleven else 11080
    check = failure(Tier.DEVICE)
    major, first = (13, "580.65") if is_eleven else (12, "525.60")
    assert check.found == f"a driver for CUDA {'12.8' if is_eleven else '11.8'}"
    assert check.wanted == f"a driver for CUDA {major} ({first} or newer)"
    if is_eleven:
        assert check.fix.endswith(f" && {install_command('enginebay-tensorrt[cu12]')}")
    else:  # CUDA 11 has no wheels
        assert check.fix == "update NVIDIA's driver"


def test_cuda_bindings_newer_than_the_driver_fail(machine: Any, wheels: dict[str, str]) -> None:
    """CUDA reports only that the driver is too old; TensorRT needs no newer driver."""
    wheels[f"{INSTALLED.product.backend}-cu12-bindings"] = "10.16.1"
    machine.driver, machine.runtime = 12080, 13000
    check = failure(Tier.DEVICE)
    assert check.name == "one CUDA"
    assert check.found == "cuda-bindings for CUDA 13, a driver for CUDA 12.8"
    assert check.fix == "pip install 'cuda-bindings==12.*'"
    machine.runtime = 12090  # minor versions of CUDA are compatible
    assert checks(Tier.DEVICE)[0].status == "ok"


def test_a_driver_for_an_older_cuda_fails(machine: Any, wheels: dict[str, str]) -> None:
    name = INSTALLED.product.backend
    wheels[f"{name}-cu13-bindings"] = "1.7.1"
    machine.driver = 12080
    check = failure(Tier.DEVICE)
    assert check.found == "a driver for CUDA 12.8"
    assert check.wanted == "a driver for CUDA 13 (580.65 or newer)"
    extra = INSTALLED.product.extras["12"]
    assert check.fix.endswith(f" && {install_command(f'enginebay-tensorrt[{extra}]')}")


def test_a_missing_gpu_fails(machine: Any) -> None:
    check = failure(Tier.DEVICE, device="cuda:2")
    assert (check.found, check.wanted) == ("2 GPUs", "cuda:2")


@needs_rtx
def test_plugins_are_checked_as_custom_ops(machine: Any, tmp_path: Path) -> None:
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(b"nothing")
    found = checks(Tier.DEVICE, with_custom_ops=True, plugins=[str(broken)])
    assert found[-1].status == "failed"
    assert "cannot be loaded" in found[-1].found
    own = checks(Tier.DEVICE, with_custom_ops=True)[-1]
    assert own.name == "custom ops"
    assert own.found == "only TensorRT's own plugins, since --plugins is empty"


@needs_rtx
def test_all_four_tiers_pass_in_child_processes(stand_ins: Any) -> None:
    """As ``enginebay check-env tensorrt-rtx`` asks: the last one builds, runs and compares."""
    report = eb.get_backend("tensorrt-rtx").check_env()
    assert report.ok, report.failed
    assert [check.tier for check in report.checks][-1] == Tier.SMOKE
    assert "worst difference 0" in report.checks[-1].found


ALL = """
import enginebay as eb
for c in eb.get_backend({!r}).check_env().checks: print(c.tier, c.status, c.name, c.found, sep="|")
"""


@needs_tensorrt
def test_this_machine_without_stand_ins_has_no_libraries() -> None:
    told = in_a_child(False, ALL.format("tensorrt"))
    rows = [line.split("|")[:3] for line in told.splitlines()]
    assert rows[0][:2] == ["metadata", "ok"]
    assert rows[1] == ["import", "failed", "the libraries of TensorRT"]
    assert ["smoke", "skipped", "smoke"] in rows


@needs_rtx
def test_without_a_driver_the_build_is_checked_and_the_run_fails() -> None:
    told = in_a_child(False, ALL.format("tensorrt-rtx"))
    rows = [line.split("|") for line in told.splitlines()]
    assert ["import", "ok", "parser and builder"] in [row[:3] for row in rows]
    assert ["device", "failed", "driver", "no NVIDIA driver (libcuda.so.1)"] in rows


@needs_rtx
def test_bindings_of_tensorrt_for_rtx_without_libraries_fail() -> None:
    """The real bindings, whose libraries the loader does not find."""
    code = "import sys; sys.modules['tensorrt_rtx_libs'] = None\n" + IMPORT.replace(
        "TensorrtParams()", "TensorrtRtxParams()"
    )
    status, name, found, fix = in_a_child(False, code).splitlines()[0].split("|")
    assert (status, name) == ("failed", "the libraries of TensorRT for RTX")
    assert found.startswith("the bindings, but not libtensorrt_")
    assert re.fullmatch(r"pip install 'tensorrt-rtx-cu13-libs==[\d.]+'", fix)
