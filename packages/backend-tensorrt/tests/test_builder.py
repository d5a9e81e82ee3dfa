"""The builder's settings, on the stand-ins, and what it and the parser return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import agree, expected, linear, rows

import enginebay as eb
from enginebay.authors import read_onnx
from enginebay.errors import ConversionError, ParamsError

if TYPE_CHECKING:
    from pathlib import Path


def config_of(stand_ins: Any, tmp_path: Path, data: Any = None, **params: Any) -> Any:
    source = linear(tmp_path / "m.onnx")
    eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=params, data=data)
    return stand_ins.CONFIGS[-1]


def test_defaults_turn_tf32_off_and_leave_the_rest(stand_ins: Any, tmp_path: Path) -> None:
    config = config_of(stand_ins, tmp_path)
    assert config._flags == set()
    assert set(config._values) == {"progress_monitor", "hardware_compatibility_level"}
    assert config.hardware_compatibility_level.name == "NONE"


def test_what_the_builder_is_told(stand_ins: Any, tmp_path: Path) -> None:
    config = config_of(
        stand_ins,
        tmp_path,
        workspace_size=1 << 30,
        optimization_level=5,
        version_compatible=True,
        hardware_compatibility="ampere_plus",
        sparsity=True,
        refit=True,
    )
    flags = stand_ins.trt.BuilderFlag
    assert config._flags == {flags.VERSION_COMPATIBLE, flags.SPARSE_WEIGHTS, flags.REFIT}
    assert config.get_memory_pool_limit(stand_ins.trt.MemoryPoolType.WORKSPACE) == 1 << 30
    assert config.builder_optimization_level == 5
    assert config.hardware_compatibility_level.name == "AMPERE_PLUS"
    with eb.load(tmp_path / "a") as wrapper:  # it needs leave to run the runtime inside
        agree(wrapper({"x": np.ones((2, 3), np.float32)}), expected(np.ones((2, 3), np.float32)))


def test_a_level_that_this_version_has_not(
    stand_ins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    from enginebay_tensorrt.installation import trt

    older = SimpleNamespace(__members__={"NONE": 0, "AMPERE_PLUS": 1})
    monkeypatch.setattr(trt, "HardwareCompatibilityLevel", older)
    with pytest.raises(ParamsError) as caught:
        config_of(stand_ins, tmp_path, hardware_compatibility="same_compute_capability")
    assert str(caught.value) == (
        f"hardware_compatibility same_compute_capability is not in TensorRT {trt.__version__}: "
        "it has none, ampere_plus"
    )


def test_dla(stand_ins: Any, tmp_path: Path, is_eleven: bool) -> None:
    config = config_of(stand_ins, tmp_path, dla_core=1, precision="fp16")
    flags = stand_ins.trt.BuilderFlag
    assert config.DLA_core == 1
    assert config.default_device_type == stand_ins.trt.DeviceType.DLA
    assert config._flags == {flags.GPU_FALLBACK} | (set() if is_eleven else {flags.FP16})
    assert ("parser", "ADJUST_FOR_DLA") in stand_ins.LOG
    assert ("create_network", 0) in stand_ins.LOG  # not strongly typed in 10, always in 11
    eb.load(tmp_path / "a").close()
    assert ("DLA_core", 1) in stand_ins.LOG


def test_a_dla_core_that_is_not_there(stand_ins: Any, tmp_path: Path) -> None:
    stand_ins.FAULTS["dla_cores"] = 0
    with pytest.raises(ParamsError) as caught:
        config_of(stand_ins, tmp_path, dla_core=0, precision="fp16")
    assert str(caught.value) == (
        f"there is no DLA core 0: TensorRT {stand_ins.trt.__version__} finds 0 on this device"
    )


def test_dla_before_the_parser_knew_of_it(
    stand_ins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    from enginebay_tensorrt.installation import trt

    monkeypatch.setattr(trt, "OnnxParserFlag", SimpleNamespace(__members__={}))
    config_of(stand_ins, tmp_path, dla_core=0, precision="fp16")
    assert not [entry for entry in stand_ins.LOG if entry[0] == "parser"]


def test_8_bits_are_in_the_graph_of_both_versions(stand_ins: Any, tmp_path: Path) -> None:
    data = [{"x": rows(2)} for _ in range(3)]
    config = config_of(stand_ins, tmp_path, data=data, precision="int8")
    assert config._flags == set()
    assert [entry for entry in stand_ins.LOG if entry[0] == "parse_from_file"][-1][1].endswith(
        "typed.onnx"
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"dla_core": 0}, "DLA computes in fp16, found precision fp32"),
        ({"dla_core": 0, "precision": "int8"}, "DLA computes in fp16, found precision int8"),
        ({"device": "gpu"}, "device 'gpu' is not one of TensorRT's: wanted cuda or cuda:N"),
    ],
)
def test_parameters_that_do_not_go_together(
    stand_ins: Any, tmp_path: Path, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParamsError) as caught:
        config_of(stand_ins, tmp_path, data=[{"x": rows(2)}], **params)
    assert str(caught.value) == message
    assert caught.value.hint


def test_parser_errors_name_the_nodes(stand_ins: Any, tmp_path: Path) -> None:
    model = onnx.load(linear(tmp_path / "m.onnx"))
    for number in range(5):
        model.graph.node.add(
            op_type="Unique", name=f"unique_{number}", input=["y"], output=[f"u{number}"]
        )
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ConversionError) as caught:
        eb.convert(tmp_path / "m.onnx", backend="tensorrt", work_dir=tmp_path / "a")
    one = "node 'unique_{}' (Unique): no importer for Unique [UNSUPPORTED_NODE]"
    told = "; ".join(one.format(number) for number in range(3))
    assert str(caught.value) == f"TensorRT cannot parse 'm.onnx': {told}; and 2 more"
    assert "plugin" in (caught.value.hint or "")
    assert not (tmp_path / "a").exists()


def test_a_build_that_fails_says_why(stand_ins: Any, tmp_path: Path) -> None:
    stand_ins.FAULTS["build"] = "Error Code 10: no implementation\nfor node product"
    with pytest.raises(ConversionError) as caught:
        eb.convert(linear(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")
    assert str(caught.value) == (
        "TensorRT cannot build an engine from 'm.onnx': "
        "Error Code 10: no implementation; for node product"
    )


def test_the_preview_lists_all_that_the_parser_refuses(stand_ins: Any, tmp_path: Path) -> None:
    model = onnx.load(linear(tmp_path / "m.onnx"))
    for number in range(5):
        model.graph.node.add(
            op_type="Unique", name=f"unique_{number}", input=["y"], output=[f"u{number}"]
        )
    onnx.save(model, tmp_path / "m.onnx")
    backend = eb.get_backend("tensorrt")
    found = backend.unsupported_operators(
        read_onnx(tmp_path / "m.onnx"), backend.Params(), tmp_path
    )
    assert found == {f"unique_{number}": "no importer for Unique" for number in range(5)}


def test_dtypes_that_the_parser_changes_are_refused(stand_ins: Any, tmp_path: Path) -> None:
    model = onnx.load(linear(tmp_path / "m.onnx"))
    model.graph.node.add(op_type="Cast", name="wide", input=["x"], output=["d"]).attribute.append(
        helper.make_attribute("to", TensorProto.DOUBLE)
    )
    model.graph.output.append(helper.make_tensor_value_info("d", TensorProto.DOUBLE, [2, 3]))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ConversionError) as caught:
        eb.convert(tmp_path / "m.onnx", backend="tensorrt", work_dir=tmp_path / "a")
    assert str(caught.value) == ("TensorRT reads output 'd' of 'm.onnx' as float32, wanted float64")


def test_an_output_that_is_an_input_by_name(stand_ins: Any, tmp_path: Path) -> None:
    """The parser renames the input."""
    model = onnx.load(linear(tmp_path / "m.onnx"))
    model.graph.output.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ConversionError) as caught:
        eb.convert(tmp_path / "m.onnx", backend="tensorrt", work_dir=tmp_path / "a")
    assert str(caught.value) == ("TensorRT's network has no input 'x' as 'm.onnx' has: found __x")


def test_an_input_that_decides_shapes_is_refused(stand_ins: Any, tmp_path: Path) -> None:
    stand_ins.FAULTS["shape_tensors"] = ("x",)
    with pytest.raises(ConversionError, match=r"input 'x' of 'm\.onnx' decides shapes"):
        eb.convert(linear(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")


def test_progress_is_told_step_by_step(stand_ins: Any, tmp_path: Path) -> None:
    from enginebay_tensorrt.api import from_onnx

    told: list[str] = []
    from_onnx(linear(tmp_path / "m.onnx"), precision="fp16", progress=told.append)
    assert told == [
        "converting to fp16",
        "Building Engine",
        "Building Engine: Tactic Selection",
        "Tactic Selection 1/3",
        "Tactic Selection 2/3",
        "Tactic Selection 3/3",
    ]


def test_progress_reaches_whoever_watches_a_deployment(stand_ins: Any, tmp_path: Path) -> None:
    import torch

    details: list[str] = []
    eb.deploy(
        torch.nn.ReLU(),
        torch.ones(2),
        backend="tensorrt",
        work_dir=tmp_path / "a",
        watch=lambda step: details.append(f"{step.name}: {step.detail}"),
    )
    assert "convert: Tactic Selection 2/3" in details


def test_ctrl_c_calls_the_build_off(stand_ins: Any, tmp_path: Path) -> None:
    from enginebay_tensorrt.api import from_onnx

    def tell(text: str) -> None:
        if text.startswith("Tactic Selection 1"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        from_onnx(linear(tmp_path / "m.onnx"), progress=tell)


def test_ctrl_c_is_heard_while_tensorrt_works(stand_ins: Any, tmp_path: Path) -> None:
    """Heard in a call of the monitor it would be swallowed, and the build be called a failure."""
    import os
    import signal
    from threading import Timer

    from enginebay_tensorrt.api import from_onnx

    stand_ins.FAULTS["slow"] = 0.5
    source = linear(tmp_path / "m.onnx")
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        if len(told) == 2:  # the first step has begun
            Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        from_onnx(source, progress=tell)
    assert told[-1] == "Tactic Selection 1/3"  # the build has ended, at its next step
