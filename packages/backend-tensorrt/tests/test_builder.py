"""What the real parser and builder of TensorRT for RTX return for models and settings."""

from __future__ import annotations

import os
import signal
import time
from threading import Timer
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import OPSET, RNG, linear, nonzero, slow

import enginebay as eb
from enginebay.authors.files import read_onnx
from enginebay.errors import BackendUnavailableError, ConversionError, ParamsError
from enginebay.hooks import ConvertRequest
from enginebay_tensorrt.api import from_onnx

if TYPE_CHECKING:
    from pathlib import Path


def config_of(stand_ins: Any, tmp_path: Path, **params: Any) -> Any:
    from_onnx(linear(tmp_path / "m.onnx"), backend="tensorrt-rtx", **params)
    return stand_ins.CONFIGS[-1]


def flags_of(stand_ins: Any, config: Any) -> set[str]:
    members = stand_ins.trt.BuilderFlag.__members__
    return {name for name, flag in members.items() if config.get_flag(flag)}


# -- settings -------------------------------------------------------------------------------------


def test_defaults_turn_off_tf32_only(stand_ins: Any, tmp_path: Path) -> None:
    config = config_of(stand_ins, tmp_path)
    untouched = stand_ins.trt.Builder(config_logger()).create_builder_config()
    assert flags_of(stand_ins, untouched) - flags_of(stand_ins, config) == {"TF32"}
    assert config.num_compute_capabilities == 0  # Ampere and newer


def config_logger() -> Any:
    from enginebay_tensorrt.library import get_library
    from enginebay_tensorrt.params import TensorrtRtxParams

    return get_library(TensorrtRtxParams()).logger


def test_parameters_reach_the_builder(stand_ins: Any, tmp_path: Path) -> None:
    config = config_of(
        stand_ins,
        tmp_path,
        workspace_size=1 << 30,
        sparsity=True,
        compute_capability=("sm89", "12.0", "89"),
    )
    assert "SPARSE_WEIGHTS" in flags_of(stand_ins, config)
    assert config.get_memory_pool_limit(stand_ins.trt.MemoryPoolType.WORKSPACE) == 1 << 30
    numbers = range(config.num_compute_capabilities)
    names = [config.get_compute_capability(number).name for number in numbers]
    assert names == ["SM89", "SM120"]


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        (
            ("sm90",),
            (
                "compute_capability 'sm90' is not supported by TensorRT for RTX 1.7.1.116; "
                "available: current, sm75, sm80, sm86, sm89, sm120, sm121"
            ),
            "leave out --compute-capability to build for Ampere and newer",
        ),
        (
            ("sm89", "current"),
            "compute_capability 'current' cannot be combined with other values",
            "write this machine's compute capability instead of current: --compute-capability sm89",
        ),
    ],
)
def test_unknown_capabilities_are_refused(
    stand_ins: Any, tmp_path: Path, wanted: tuple[str, ...], message: str, hint: str
) -> None:
    with pytest.raises(ParamsError) as caught:
        config_of(stand_ins, tmp_path, compute_capability=wanted)
    assert (str(caught.value), caught.value.hint) == (message, hint)


def test_fp32_products_for_turing_are_refused(stand_ins: Any, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="FP32 GEMM is not supported") as caught:
        config_of(stand_ins, tmp_path, compute_capability=("sm75",))
    assert caught.value.hint == "another --precision, or other GPUs in --compute-capability"
    config_of(stand_ins, tmp_path, compute_capability=("sm75",), precision="fp16")


def test_the_current_capability_requires_a_gpu(machine: Any, tmp_path: Path) -> None:
    machine.names = []
    with pytest.raises(BackendUnavailableError) as caught:
        config_of(None, tmp_path, compute_capability=("current",))
    assert str(caught.value).startswith("device cuda:0 cannot be used: cudaGetDeviceProperties")
    assert caught.value.hint == "enginebay check-env tensorrt-rtx"


@pytest.mark.parametrize("how", ["refit", "strip_plan"])
def test_stripped_engines_require_a_gpu(machine: Any, tmp_path: Path, how: str) -> None:
    machine.driver, machine.names = 0, []
    with pytest.raises(BackendUnavailableError) as caught:
        config_of(None, tmp_path, **{how: True})
    assert str(caught.value) == (
        "building an engine whose weights can be replaced requires a GPU: this machine has "
        "no NVIDIA driver (libcuda.so.1)"
    )


def test_a_workspace_that_is_too_small_is_an_error(stand_ins: Any, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="within workspace limit") as caught:
        config_of(stand_ins, tmp_path, workspace_size=1)
    assert caught.value.hint == "a larger --workspace-size than 1, or none"


def test_an_unknown_device_is_refused(stand_ins: Any, tmp_path: Path) -> None:
    with pytest.raises(ParamsError) as caught:
        config_of(stand_ins, tmp_path, compute_capability=("current",), device="gpu")
    assert str(caught.value) == "unknown device 'gpu' for TensorRT: expected cuda or cuda:N"


@pytest.mark.parametrize("precision", ["int8", "fp8"])
@pytest.mark.parametrize(
    ("operator", "shape", "weights"),
    [
        ("Conv", (1, 8, 9), (4, 8, 3)),
        ("Conv", (1, 8, 9, 9), (4, 8, 3, 3)),
        ("Conv", (1, 8, 9, 9, 9), (4, 8, 3, 3, 3)),
        ("ConvTranspose", (1, 8, 9, 9), (8, 4, 3, 3)),
        ("MatMul", (2, 9, 8), (8, 4)),
        ("Gemm", (9, 8), (8, 4)),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)}d",
)
def test_quantised_nodes_are_built(
    stand_ins: Any, tmp_path: Path, precision: str, operator: str, shape: Any, weights: Any
) -> None:
    """The scales for each output channel in int8, and E4M3, as the quantiser writes them."""
    values = RNG.standard_normal(weights).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "w"], ["y"], name="product")],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, "w")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=OPSET, ir_version=8), path)
    plan = from_onnx(
        path,
        backend="tensorrt-rtx",
        precision=precision,
        calibration_data=[{"x": RNG.standard_normal(shape).astype(np.float32)} for _ in range(16)],
    )
    _, built = stand_ins.graph_of(plan)
    assert [node.op_type for node in built.graph.node].count("QuantizeLinear") == 2


def test_fp8_requires_ada(stand_ins: Any, tmp_path: Path) -> None:
    data = [{"x": np.eye(2, 3, dtype=np.float32)}] * 16
    params = {"precision": "fp8", "compute_capability": ("sm86",), "calibration_data": data}
    with pytest.raises(ConversionError, match=r"sm86, .* HW-specific datatypes: fp8"):
        config_of(stand_ins, tmp_path, **params)


# -- refusals of the parser ----------------------------------------------------------------------


def refused(path: Path) -> Path:
    model = onnx.load(linear(path))
    for number in range(5):
        model.graph.node.add(
            op_type="Unique", name=f"unique_{number}", input=["y"], output=[f"u{number}"]
        )
    model.graph.node.add(op_type="Mine", name="own", domain="mine", input=["y"], output=["o"])
    model.opset_import.add(domain="mine", version=1)
    onnx.save(model, path)
    return path


def test_parser_errors_name_the_nodes(stand_ins: Any, tmp_path: Path) -> None:
    work_dir = tmp_path / "a"
    with pytest.raises(ConversionError) as caught:
        eb.convert(refused(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=work_dir)
    assert str(caught.value) == (
        "TensorRT for RTX cannot parse 'm.onnx': Unique is not supported (nodes 'unique_0', "
        "'unique_1', 'unique_2' and 2 more); Mine: Plugin not found, are the plugin name, "
        "version, and namespace correct? (node 'own')"
    )
    assert "plugin" in (caught.value.hint or "")
    assert not work_dir.exists()


def unsupported(path: Path) -> dict[str, str]:
    backend = eb.get_backend("tensorrt-rtx")
    ir, params = read_onnx(path), backend.Params()
    request = ConvertRequest(ir=ir, params=params, work_dir=path.parent)
    return backend.unsupported_operators(request)


def test_the_preview_lists_all_that_the_parser_refuses(stand_ins: Any, tmp_path: Path) -> None:
    assert unsupported(refused(tmp_path / "m.onnx")) == {
        **{f"unique_{number}": "Unique is not supported" for number in range(5)},
        "own": "Plugin not found, are the plugin name, version, and namespace correct?",
    }
    assert stand_ins.CONFIGS == []  # nothing is built


def test_a_shape_that_depends_on_the_data_is_built(stand_ins: Any, tmp_path: Path) -> None:
    """TensorRT has NonZero; TensorRT for RTX refuses it, or layers built from it."""
    source = nonzero(tmp_path / "m.onnx")
    source.with_suffix(".twin").unlink()
    assert unsupported(source)["nonzero"].endswith(
        "NonZero plugin creator version 1 was not found in plugin registry."
    )


@pytest.mark.parametrize(
    ("content", "reason"), [(b"no model", "Failed to parse the ONNX model."), (b"", "one output")]
)
def test_files_without_a_model_are_refused(
    stand_ins: Any, tmp_path: Path, content: bytes, reason: str
) -> None:
    from io import BytesIO

    from enginebay_tensorrt.builder import build_plan
    from enginebay_tensorrt.params import TensorrtRtxParams

    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    ports: dict[str, Any] = {"inputs": (), "outputs": (), "shapes": {}}
    with pytest.raises(ConversionError, match=f"'m.onnx': .*{reason}"):
        build_plan(path, TensorrtRtxParams(), None, BytesIO(), **ports, progress=print)


def test_dtypes_that_the_parser_changes_are_refused(stand_ins: Any, tmp_path: Path) -> None:
    model = onnx.load(linear(tmp_path / "m.onnx"))
    model.graph.node.add(op_type="Cast", name="wide", input=["x"], output=["d"]).attribute.append(
        helper.make_attribute("to", TensorProto.DOUBLE)
    )
    model.graph.output.append(helper.make_tensor_value_info("d", TensorProto.DOUBLE, [2, 3]))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ConversionError) as caught:
        eb.convert(tmp_path / "m.onnx", backend="tensorrt-rtx", work_dir=tmp_path / "a")
    assert str(caught.value) == (
        "TensorRT for RTX changed the dtype of output 'd' of 'm.onnx': "
        "expected float64, found float32"
    )


def test_an_output_with_the_name_of_an_input_is_refused(stand_ins: Any, tmp_path: Path) -> None:
    """The parser renames the input."""
    model = onnx.load(linear(tmp_path / "m.onnx"))
    model.graph.output.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ConversionError) as caught:
        eb.convert(tmp_path / "m.onnx", backend="tensorrt-rtx", work_dir=tmp_path / "a")
    assert str(caught.value) == (
        "TensorRT for RTX's network has no input 'x' of 'm.onnx': found __x"
    )


def test_an_input_that_decides_shapes_is_refused(stand_ins: Any, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape")],
        "reshaped",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("shape", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=OPSET, ir_version=8), path)
    with pytest.raises(ConversionError, match=r"'shape' of 'm\.onnx' determine shapes"):
        from_onnx(path, backend="tensorrt-rtx")


# -- progress and the end of a build --------------------------------------------------------------


def test_progress_reports_each_step(stand_ins: Any, tmp_path: Path) -> None:
    told: list[str] = []
    source = linear(tmp_path / "m.onnx")
    from_onnx(source, backend="tensorrt-rtx", precision="fp16", progress=told.append)
    assert told[:3] == [
        "converting to fp16",
        "Building engine",
        "Building engine: Cloning network graph",
    ]
    assert "Optimizing graph 1/30" in told
    assert told[-1] == "Building engine 5/6"  # the plan is serialised after the last step


def test_progress_reaches_the_watcher_of_a_deployment(stand_ins: Any, tmp_path: Path) -> None:
    import torch

    details: list[str] = []
    eb.deploy(
        torch.nn.ReLU(),
        torch.ones(2),
        backend="tensorrt-rtx",
        work_dir=tmp_path / "a",
        watch=lambda step: details.append(f"{step.name}: {step.detail}"),
        export=eb.ExportOptions(exporter="torchscript"),
    )
    assert "convert: Optimizing graph 1/30" in details


def test_ctrl_c_stops_the_build(stand_ins: Any, tmp_path: Path) -> None:
    def tell(text: str) -> None:
        if text.startswith("Optimizing graph 1"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        from_onnx(linear(tmp_path / "m.onnx"), backend="tensorrt-rtx", progress=tell)


def test_ctrl_c_is_handled_while_tensorrt_builds(stand_ins: Any, tmp_path: Path, soon: int) -> None:
    """Heard in a call of the monitor it would be swallowed, and the build be called a failure."""
    source = slow(tmp_path / "m.onnx")
    told: list[str] = []
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    def tell(text: str) -> None:
        told.append(text)
        if text == "Optimizing graph 1/30":
            Timer(0.02, send).start()

    with pytest.raises(KeyboardInterrupt):
        from_onnx(source, backend="tensorrt-rtx", progress=tell)
    assert time.monotonic() - sent[0] < 3 * soon
    assert told[-1] != "Building engine 5/6"  # it has ended before its end


# -- what TensorRT has and TensorRT for RTX has not ------------------------------------------------


def test_dla_is_in_the_config_and_in_the_parser(stand_ins: Any, tmp_path: Path) -> None:
    """TensorRT for RTX takes what DLA is set to, and finds no core that it could build for."""
    source = linear(tmp_path / "m.onnx")
    with pytest.raises(ParamsError) as caught:
        from_onnx(source, dla_core=0, precision="fp16")
    assert (
        str(caught.value)
        == "unknown DLA core 0: TensorRT 1.7.1.116 found 0 DLA cores on this device"
    )


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_dla_computes_in_fp16(stand_ins: Any, tmp_path: Path, precision: str) -> None:
    data = [{"x": np.ones((2, 3), np.float32)}]
    with pytest.raises(ParamsError) as caught:
        from_onnx(
            linear(tmp_path / "m.onnx"), dla_core=0, precision=precision, calibration_data=data
        )
    assert (
        str(caught.value)
        == f"DLA computes only in fp16: expected precision fp16, found {precision}"
    )


def test_the_optimisation_level_reaches_the_builder(stand_ins: Any, tmp_path: Path) -> None:
    from_onnx(linear(tmp_path / "m.onnx"), optimization_level=4)
    assert stand_ins.CONFIGS[-1].builder_optimization_level == 4
