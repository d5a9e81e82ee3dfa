"""Parameters, profiles and imports."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Any

import pytest

import enginebay as eb
from enginebay.authors.arrays import ShapeProfile
from enginebay.environment import install_command
from enginebay.errors import ConfigError, ParamsError
from enginebay_tensorrt.params import TensorrtParams, TensorrtRtxParams
from enginebay_tensorrt.profiles import resolve_profiles_for

X = {"x": (-1, 3)}


def test_parameters_are_flags() -> None:
    parser = argparse.ArgumentParser()
    TensorrtParams.add_arguments(parser)
    text = (
        "--precision fp16 --workspace-size 1073741824 --optimization-level 4 --dla-core 1 "
        "--no-sparsity --strip-plan --plugins a.so,b.so --timing-cache cache --device cuda:1"
    )
    profiles = ["--profiles", "x:1x3 m:1 / x:4x3 m:4 / x:8x3 m:8,x:9x3 m:9/x:9x3 m:9/x:9x3 m:9"]
    params = TensorrtParams.from_args(parser.parse_args([*text.split(), *profiles]))
    assert (params.precision, params.workspace_size, params.dla_core) == ("fp16", 1 << 30, 1)
    assert params.plugins == ("a.so", "b.so")
    assert len(params.profiles) == 2
    assert params.device_index == 1
    assert TensorrtParams.from_mapping(params.to_mapping()) == params


def test_parameters_of_tensorrt_for_rtx_are_flags() -> None:
    parser = argparse.ArgumentParser()
    TensorrtRtxParams.add_arguments(parser)
    given = parser.parse_args(["--compute-capability", "sm89,12.0", "--precision", "fp16"])
    params = TensorrtRtxParams.from_args(given)
    assert params.compute_capability == ("sm89", "12.0")
    assert TensorrtRtxParams.from_mapping(params.to_mapping()) == params
    ours = {*TensorrtParams.__struct_fields__}
    assert {*TensorrtRtxParams.__struct_fields__} - ours == {"compute_capability"}
    with pytest.raises(ParamsError, match="'timing_cache', which is not one of its fields"):
        TensorrtRtxParams(timing_cache="cache")


def test_model_files_include_stripped_weights() -> None:
    assert TensorrtParams(file_name="net").get_model_files() == ("net.engine",)
    params = TensorrtParams(file_name="net", work_dir="out", strip_plan=True)
    assert params.get_model_files() == ("out/net.engine", "out/net.onnx")


def from_config(**keys: Any) -> Any:
    section = {"backend_config": {"type": "tensorrt", **keys}}
    return eb.get_backend("tensorrt").build_param_from_config(section)


@pytest.mark.parametrize(
    ("common", "precision"),
    [
        ({"fp16_mode": True}, "fp16"),
        ({"fp16_mode": False}, "fp32"),
        ({"int8_mode": True}, "int8"),
        ({"int8_mode": True, "fp16_mode": True}, "int8"),
        ({"fp16_mode": True, "int8_mode": True}, "int8"),
        ({"fp16_mode": True, "int8_mode": False}, "fp16"),
    ],
)
def test_mmdeploys_precisions_are_read(common: dict[str, bool], precision: str) -> None:
    assert from_config(common_config=common).precision == precision
    assert from_config(common_config=common, precision="bf16").precision == "bf16"


def test_mmdeploys_shapes_and_workspace_are_read() -> None:
    shapes = {"min_shape": [1, 3, 8, 8], "opt_shape": [2, 3, 8, 16], "max_shape": [4, 3, 8, 32]}
    params = from_config(
        common_config={"max_workspace_size": 1 << 30},
        model_inputs=[{"input_shapes": {"input": shapes}}],
    )
    assert params.workspace_size == 1 << 30
    assert resolve_profiles_for({"input": (-1, 3, 8, -1)}, params, {}) == [
        {"input": ShapeProfile((1, 3, 8, 8), (2, 3, 8, 16), (4, 3, 8, 32))}
    ]


@pytest.mark.parametrize(
    ("common", "message"),
    [
        (
            {"fp16_mode": 1},
            "1 does not fit backend_config.common_config.fp16_mode: expected bool, found int",
        ),
        ({"max_workspace_size": -1}, "-1 does not fit TensorrtParams.workspace_size"),
        ({"int8": True}, "'int8' is not a key of backend_config.common_config; available: "),
    ],
)
def test_errors_in_a_config_are_named(common: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_config(common_config=common)
    assert str(caught.value).startswith(message)


def test_calibrators_are_not_a_parameter() -> None:
    with pytest.raises(ParamsError) as refused:
        TensorrtParams(calibrator="entropy")
    with pytest.raises(ConfigError) as caught:
        from_config(calibrator="entropy")
    assert str(caught.value).startswith("'calibrator' is not a key of backend_config")
    assert "'calibrator', which is not one of its fields" in str(refused.value)


def test_invalid_levels_are_refused() -> None:
    with pytest.raises(ParamsError, match="optimization_level"):
        TensorrtParams(optimization_level=6)
    with pytest.raises(ParamsError, match="hardware_compatibility"):
        TensorrtParams(hardware_compatibility="ampere")


@pytest.mark.parametrize("device", ["cuda:x", "gpu", "cuda:", "cpu"])
def test_invalid_devices_are_refused(device: str) -> None:
    with pytest.raises(ParamsError, match=f"unknown device '{device}' for TensorRT"):
        TensorrtParams(device=device)


def test_profiles_contain_only_dynamic_inputs() -> None:
    params = TensorrtParams(
        min_shapes="x:1x3,k:5", input_shapes="x:4x3,k:5", max_shapes="x:8x3,k:5"
    )
    assert resolve_profiles_for({"x": (-1, 3), "k": (5,)}, params, {}) == [
        {"x": ShapeProfile((1, 3), (4, 3), (8, 3))}
    ]
    assert resolve_profiles_for({"x": (4, 3), "k": (5,)}, TensorrtParams(), {}) == []


def test_parameters_override_the_shapes_of_a_deployment() -> None:
    known = {"x": ShapeProfile((1, 3), (2, 3), (9, 3)), "dropped": ShapeProfile((1,), (1,), (1,))}
    assert resolve_profiles_for(X, TensorrtParams(), known) == [{"x": known["x"]}]
    own = TensorrtParams(profiles=("1x3 / 2x3 / 3x3",))
    assert resolve_profiles_for(X, own, known) == [{"x": ShapeProfile((1, 3), (2, 3), (3, 3))}]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            {"input_shapes": "x:4x5"},
            "the smallest shape '4x5' of input 'x' does not fit the network: expected '?x3'",
        ),
        (
            {"input_shapes": "x:4"},
            "the smallest shape '4' of input 'x' does not fit the network: expected '?x3'",
        ),
        ({"input_shapes": "z:4x3"}, "'z' is not an input: the model's inputs are 'x'"),
        (
            {"profiles": ("x:1x3 / x:2x3",)},
            (
                "wrong profile 'x:1x3 / x:2x3': expected smallest / usual / largest shapes, "
                "found 2 parts"
            ),
        ),
        (
            {"input_shapes": "x:?x3"},
            (
                "input 'x' is dynamic ('?x3'): TensorRT requires its "
                "smallest, usual and largest shapes"
            ),
        ),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: dict[str, str], message: str) -> None:
    with pytest.raises(ParamsError) as caught:
        resolve_profiles_for(X, TensorrtParams(**shapes), {})
    assert str(caught.value) == message


def test_a_dynamic_size_without_a_limit_is_refused() -> None:
    with pytest.raises(ParamsError, match="requires its smallest, usual and largest shapes"):
        resolve_profiles_for(X, TensorrtParams(), {"x": ShapeProfile((1, 3), (2, 3), (None, 3))})


@pytest.mark.process
def test_the_plugin_imports_no_engine() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"  # cuda-bindings' wheel has a .pth file
        "import enginebay_tensorrt.plugin as p; p.backend_info()\n"
        "engines = {'torch', 'onnx', 'numpy', 'tensorrt', 'tensorrt_bindings', 'cuda'}\n"
        "print(sorted(engines & (set(sys.modules) - before)))"
    )
    command = [sys.executable, "-c", code]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if "fake" not in p)}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def console(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "enginebay_tensorrt", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_console_tool_has_a_flag_for_each_parameter() -> None:
    ran = console("convert", "-h")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("usage: python -m enginebay_tensorrt convert [-h]")
    for name in TensorrtParams.__struct_fields__:
        assert f"--{name.replace('_', '-')}" in ran.stdout
    # Lines of the docstring are joined with a blank.
    assert "Dimensions larger than in min_shapes are dynamic." in " ".join(ran.stdout.split())


def test_errors_of_the_console_tool_are_one_line(tmp_path: Any) -> None:
    ran = console("convert", tmp_path / "no.onnx", "--work-dir", tmp_path / "a")
    told = f"error: no file '{tmp_path / 'no.onnx'}'\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", told)
    ran = console("convert", "m.onnx", "--precision", "fp31")
    assert ran.returncode == 2
    assert "invalid choice: 'fp31'" in ran.stderr


@pytest.mark.parametrize(
    ("params", "title", "hint"),
    [
        (
            "TensorrtParams",
            "TensorRT",
            f"{install_command('enginebay-tensorrt[cu13]')}, or [cu12] for a driver of CUDA 12",
        ),
        (
            "TensorrtRtxParams",
            "TensorRT for RTX",
            f"{install_command('enginebay-tensorrt[rtx]')}, or [rtx-cu12] for a driver of CUDA 12",
        ),
    ],
)
def test_a_missing_tensorrt_is_a_one_line_error(params: str, title: str, hint: str) -> None:
    code = (
        "from importlib import util\n"
        "real = util.find_spec\n"
        "util.find_spec = lambda n, *a: None if n.startswith('tensorrt') else real(n, *a)\n"
        "from enginebay_tensorrt import library, params\n"
        f"try: library.get_library(params.{params}())\n"
        "except Exception as e: print(type(e).__name__, '|', e, '|', e.hint)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    message = f"the Python bindings of {title} are not installed"
    assert ran.stdout.strip() == f"MissingDependencyError | {message} | {hint}"
