"""Convert, save, load and run, with NVIDIA's bindings around stand-ins for its libraries."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import agree, dynamic, expected, linear, nonzero, rows

import enginebay as eb
from enginebay.errors import ConversionError, InferenceError, InputError, ParamsError

if TYPE_CHECKING:
    from pathlib import Path

# -- the whole line -------------------------------------------------------------------------------


def test_the_receipt_tells_what_the_device_reports(stand_ins: Any, tmp_path: Path) -> None:
    artifact = eb.convert(linear(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")
    with eb.load(artifact) as wrapper:
        assert wrapper.receipt.device == "cuda:0"
        assert wrapper.receipt.device_name == "NVIDIA Fake 1"
        assert wrapper.receipt.driver == "CUDA 13.0"
        assert wrapper.receipt.engine == f"tensorrt {stand_ins.trt.__version__}"
        assert wrapper.receipt.details["profiles"] == "1"


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_half_precision_is_in_the_graph(stand_ins: Any, tmp_path: Path, precision: str) -> None:
    source = linear(tmp_path / "m.onnx")
    artifact = eb.convert(
        source, backend="tensorrt", work_dir=tmp_path / "a", params={"precision": precision}
    )
    plan = (artifact.path / "model.engine").read_bytes().split(b"\n", 2)[2]
    kind = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}[precision]
    weights = onnx.ModelProto.FromString(plan).graph.initializer
    assert kind in {tensor.data_type for tensor in weights}
    assert not list(artifact.path.glob("typed-*"))
    with eb.load(artifact) as wrapper:
        x = rows(2)
        agree(wrapper({"x": x}), expected(x), tolerance=0.05)
        assert wrapper.receipt.precision == precision


@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_8_bits_are_calibrated(stand_ins: Any, tmp_path: Path, precision: str) -> None:
    np.savez(tmp_path / "c.npz", x=np.stack([rows(2) for _ in range(16)]))
    artifact = eb.convert(
        linear(tmp_path / "m.onnx"),
        backend="tensorrt",
        work_dir=tmp_path / "a",
        params={"precision": precision, "calibration": str(tmp_path / "c.npz")},
    )
    plan = (artifact.path / "model.engine").read_bytes().split(b"\n", 2)[2]
    operators = {node.op_type for node in onnx.ModelProto.FromString(plan).graph.node}
    assert "QuantizeLinear" in operators
    with eb.load(artifact) as wrapper:
        x = rows(2)
        agree(wrapper({"x": x}), expected(x), tolerance=0.4)


def test_the_console_tool_converts(stand_ins: Any, tmp_path: Path) -> None:
    from enginebay_tensorrt import api

    source, target = linear(tmp_path / "m.onnx", "n"), tmp_path / "a"
    flags = ["--min-shapes", "x:1x3", "--input-shapes", "x:4x3", "--max-shapes", "x:8x3"]
    command = [sys.executable, "-W", "ignore", "-m", "enginebay_tensorrt", "convert", source]
    ran = subprocess.run(
        [*command, "--work-dir", target, *flags], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    with api.load(target / "model.engine", output_names=("y", "s")) as wrapper:
        x = rows(8)
        agree(wrapper({"x": x}), expected(x))


def test_the_order_of_calls(stand_ins: Any, tmp_path: Path) -> None:
    source = linear(tmp_path / "m.onnx")
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a")
    eleven = stand_ins.trt.__version__.startswith("11.")
    typed = 0 if eleven else 1 << int(stand_ins.trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    assert [
        ("create_network", typed),
        ("parse_from_file", str(source)),
        ("build_serialized_network", 0),
    ] == stand_ins.LOG
    stand_ins.LOG.clear()
    with eb.load(artifact, device="cuda:0") as wrapper:
        wrapper({"x": rows(2)})
    stream = stand_ins.LOG[-1][1]
    assert [
        ("deserialize_cuda_engine", 0),
        "create_execution_context",
        ("execute_async_v3", stream, 0),
    ] == stand_ins.LOG
    assert stream != 0  # the default stream makes TensorRT wait


def test_one_call_copies_enqueues_and_waits_once(machine: Any, tmp_path: Path) -> None:
    artifact = eb.convert(linear(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")
    with eb.load(artifact) as wrapper:
        wrapper({"x": rows(2)})
        machine.log.clear()
        wrapper({"x": rows(2)})
    stream = machine.log[0][2]
    assert machine.log == [  # no memory is taken for a shape that was seen
        ("cudaMemcpyHostToDevice", 24, stream),
        ("cudaMemcpyDeviceToHost", 8, stream),  # in the engine's order
        ("cudaMemcpyDeviceToHost", 32, stream),
        ("cudaStreamSynchronize", stream),
    ]


# -- building -------------------------------------------------------------------------------------


def config_of(stand_ins: Any, tmp_path: Path, **params: Any) -> Any:
    eb.convert(
        linear(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a", params=params
    )
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

    from enginebay_tensorrt.bindings import trt

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

    from enginebay_tensorrt.bindings import trt

    monkeypatch.setattr(trt, "OnnxParserFlag", SimpleNamespace(__members__={}))
    config_of(stand_ins, tmp_path, dla_core=0, precision="fp16")
    assert not [entry for entry in stand_ins.LOG if entry[0] == "parser"]


@pytest.mark.parametrize("kind", ["entropy", "minmax"])
def test_calibrators(stand_ins: Any, tmp_path: Path, is_eleven: bool, kind: str) -> None:
    samples = np.stack([rows(2) for _ in range(3)])
    np.savez(tmp_path / "c.npz", x=samples)
    params = {"precision": "int8", "calibrator": kind, "calibration": str(tmp_path / "c.npz")}
    if is_eleven:
        with pytest.raises(ParamsError) as caught:
            config_of(stand_ins, tmp_path, **params)
        assert str(caught.value) == (
            f"calibrator {kind} is TensorRT 10's, found TensorRT {stand_ins.trt.__version__}: "
            "int8 is Q/DQ nodes there"
        )
        assert caught.value.hint == "--calibrator qdq"
        return
    config = config_of(stand_ins, tmp_path, **params)
    assert config._flags == {stand_ins.trt.BuilderFlag.INT8}
    bases = {"entropy": "IInt8EntropyCalibrator2", "minmax": "IInt8MinMaxCalibrator"}
    assert isinstance(config.int8_calibrator, getattr(stand_ins.trt, bases[kind]))
    ((_, batches),) = [entry for entry in stand_ins.LOG if entry[0] == "calibrated"]
    np.testing.assert_array_equal([batch[0].reshape(2, 3) for batch in batches], samples)


def test_calibration_that_fails_is_no_end_of_the_samples(
    stand_ins: Any, tmp_path: Path, is_eleven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bindings swallow exceptions, and an engine of half the samples would pass as whole."""
    from enginebay_tensorrt import cuda
    from enginebay_tensorrt.api import from_onnx

    if is_eleven:
        pytest.skip("TensorRT 11 has no calibrators")
    call, copies = cuda.call, []

    def fail(name: str, *arguments: Any) -> Any:
        if name == "cudaMemcpy" and copies.append(name) is None and len(copies) == 2:
            raise RuntimeError("cudaMemcpy failed: an illegal memory access was encountered")
        return call(name, *arguments)

    monkeypatch.setattr(cuda, "call", fail)
    with pytest.raises(ConversionError, match="calibration failed: cudaMemcpy failed: an illegal"):
        from_onnx(
            linear(tmp_path / "m.onnx"),
            precision="int8",
            calibrator="minmax",
            calibration_data=[{"x": rows(2)}] * 3,
        )


def test_calibrators_take_samples_of_one_shape(
    stand_ins: Any, tmp_path: Path, is_eleven: bool
) -> None:
    from enginebay_tensorrt.api import from_onnx

    if is_eleven:
        pytest.skip("TensorRT 11 has no calibrators")
    source = linear(tmp_path / "m.onnx", "n")
    with pytest.raises(
        ParamsError, match=r"sample 1 has \(3, 3\), wanted \(2, 3\) as in the first"
    ):
        from_onnx(
            source,
            precision="int8",
            calibrator="entropy",
            calibration_data=[{"x": rows(2)}, {"x": rows(3)}],
            **dynamic(),
        )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"precision": "int8"}, "precision int8 needs calibration data"),
        ({"dla_core": 0}, "DLA computes in fp16 and int8, found precision fp32"),
        ({"device": "gpu"}, "device 'gpu' is not one of TensorRT's: wanted cuda or cuda:N"),
    ],
)
def test_parameters_that_do_not_go_together(
    stand_ins: Any, tmp_path: Path, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParamsError) as caught:
        config_of(stand_ins, tmp_path, **params)
    assert str(caught.value) == message
    assert caught.value.hint


def test_10_wants_what_only_10_has(stand_ins: Any, tmp_path: Path, is_eleven: bool) -> None:
    if is_eleven:
        pytest.skip("TensorRT 11 has no calibrators")
    with pytest.raises(ParamsError, match="calibrator minmax is for precision int8, found fp32"):
        config_of(stand_ins, tmp_path, calibrator="minmax")
    with pytest.raises(ParamsError, match=r"int8 on DLA needs a calibrator in TensorRT 10"):
        config_of(stand_ins, tmp_path, dla_core=0, precision="int8")


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


# -- shapes ---------------------------------------------------------------------------------------


def test_dynamic_shapes(stand_ins: Any, tmp_path: Path) -> None:
    source = linear(tmp_path / "m.onnx", "n")
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=dynamic())
    profile = stand_ins.CONFIGS[-1]._profiles[0]
    assert profile.get_shape("x") == [(1, 3), (4, 3), (8, 3)]
    with eb.load(artifact) as wrapper:
        for number in (1, 8, 4, 8):
            x = rows(number)
            agree(wrapper({"x": x}), expected(x))
        with pytest.raises(InputError) as caught:
            wrapper({"x": rows(9)})
        assert str(caught.value) == (
            "the engine was not built for x (9, 3): its profiles take x (1, 3) to (8, 3)"
        )
        x = rows(2)
        agree(wrapper({"x": x}), expected(x))  # a refusal breaks nothing


def test_a_deployment_says_the_shapes(stand_ins: Any, tmp_path: Path) -> None:
    import torch

    made = eb.deploy(
        torch.nn.ReLU(),
        torch.ones(2, 3),
        backend="tensorrt",
        work_dir=tmp_path / "a",
        input_names=["x"],
        dynamic_shapes={"x": {0: ("batch", 1, 4, 8)}},
    )
    assert made.verdict == "verified"
    profile = stand_ins.CONFIGS[-1]._profiles[0]
    assert profile.get_shape("x") == [(1, 3), (4, 3), (8, 3)]
    with pytest.raises(ParamsError, match="input 'x' is dynamic"):
        eb.deploy(
            torch.nn.ReLU(),
            torch.ones(2, 3),
            backend="tensorrt",
            work_dir=tmp_path / "b",
            input_names=["x"],
            dynamic_shapes={"x": {0: "batch"}},  # without a limit
        )


def test_several_profiles(stand_ins: Any, tmp_path: Path) -> None:
    source = linear(tmp_path / "m.onnx", "n")
    more = dynamic(profiles=("x:16x3 / x:32x3 / x:64x3",))
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=more)
    assert len(stand_ins.CONFIGS[-1]._profiles) == 2
    with eb.load(artifact) as wrapper:
        stand_ins.LOG.clear()
        for number in (2, 64, 20, 8):
            x = rows(number)
            agree(wrapper({"x": x}), expected(x))
        switches = [entry[1:] for entry in stand_ins.LOG if "profile" in entry[0]]
        (stream,) = {entry[1] for entry in stand_ins.LOG if entry[0] == "execute_async_v3"}
        assert switches == [(1, stream), (0, stream)]
        with pytest.raises(InputError, match=r"take x \(1, 3\) to \(8, 3\), x \(16, 3\) to"):
            wrapper({"x": rows(9)})


def test_a_profile_in_use_is_kept_where_it_will_do(stand_ins: Any, tmp_path: Path) -> None:
    """Changing it has TensorRT prepare its layers again."""
    source = linear(tmp_path / "m.onnx", "n")
    more = dynamic(profiles=("x:4x3 / x:8x3 / x:16x3",))
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=more)
    with eb.load(artifact) as wrapper:
        for number in (16, 8, 4, 1, 8):  # 4 to 8 rows fit both
            wrapper({"x": rows(number)})
    assert [entry[1] for entry in stand_ins.LOG if "profile" in entry[0]] == [1, 0]


def test_shapes_that_tensorrt_lacks(
    stand_ins: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    artifact = eb.convert(linear(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")
    with eb.load(artifact) as wrapper:
        monkeypatch.setattr(stand_ins.ExecutionContext, "infer_shapes", lambda _: ["x"])
        with pytest.raises(InferenceError, match=r"TensorRT lacks the shapes of x$"):
            wrapper({"x": rows(2)})


def test_a_dynamic_input_without_shapes(stand_ins: Any, tmp_path: Path) -> None:
    with pytest.raises(ParamsError) as caught:
        eb.convert(linear(tmp_path / "m.onnx", "n"), backend="tensorrt", work_dir=tmp_path / "a")
    assert str(caught.value) == (
        "input 'x' is dynamic ('?x3'): TensorRT needs its smallest, usual and largest shapes"
    )
    assert caught.value.hint == "--min-shapes x:1x3 --input-shapes x:4x3 --max-shapes x:8x3"


def test_a_profile_that_tensorrt_refuses(stand_ins: Any, tmp_path: Path) -> None:
    stand_ins.FAULTS["profile_refused"] = True
    source = linear(tmp_path / "m.onnx", "n")
    with pytest.raises(ConversionError, match=r"refuses the optimisation profile x \(1, 3\) to"):
        eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=dynamic())


# -- running --------------------------------------------------------------------------------------


def test_an_engine_that_fails(stand_ins: Any, tmp_path: Path) -> None:
    artifact = eb.convert(linear(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")
    with eb.load(artifact) as wrapper:
        stand_ins.FAULTS["execute"] = "Cuda Runtime (misaligned address)"
        with pytest.raises(InferenceError) as caught:
            wrapper({"x": rows(2)})
        assert str(caught.value) == (
            f"tensorrt {stand_ins.trt.__version__} failed on x float32(2, 3): "
            "Cuda Runtime (misaligned address)"
        )
        del stand_ins.FAULTS["execute"]
        x = rows(2)
        agree(wrapper({"x": x}), expected(x))


def test_a_call_that_is_refused_takes_no_memory(machine: Any, tmp_path: Path) -> None:
    source = linear(tmp_path / "m.onnx", "n")
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=dynamic())
    with eb.load(artifact) as wrapper:
        machine.log.clear()
        with pytest.raises(InputError, match="was not built for"):
            wrapper({"x": rows(1000)})
        assert machine.log == []


@pytest.mark.parametrize(
    ("method", "refused"),
    [
        ("set_input_shape", r"shape \(2, 3\) of input 'x'"),
        ("set_tensor_address", "the address of 'x'"),
        ("set_output_allocator", "an allocator for 'places'"),
        ("set_optimization_profile_async", "optimisation profile 1"),
    ],
)
def test_what_tensorrt_refuses_is_told_with_its_reason(
    stand_ins: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, refused: str
) -> None:
    if method == "set_output_allocator":
        source, params = nonzero(tmp_path / "m.onnx"), {}
    else:
        source = linear(tmp_path / "m.onnx", "n")
        params = dynamic(profiles=("x:16x3 / x:32x3 / x:64x3",))
    x = np.ones(6, np.float32) if not params else rows(16 if "profile" in method else 2)
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=params)

    def refuse(context: Any, *_: Any) -> bool:
        context._engine._logger.log(stand_ins.trt.ILogger.ERROR, "Error Code 3: API Usage")
        return False

    with eb.load(artifact) as wrapper:
        monkeypatch.setattr(stand_ins.ExecutionContext, method, refuse)
        with pytest.raises(InferenceError, match=f"refuses {refused}: Error Code 3: API Usage$"):
            wrapper({"x": x})


def test_no_memory_for_a_context(stand_ins: Any, tmp_path: Path) -> None:
    artifact = eb.convert(linear(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")
    stand_ins.FAULTS["no_memory"] = True
    with pytest.raises(ConversionError, match="has no memory for another execution context"):
        eb.load(artifact)


def test_an_output_in_host_memory_is_refused(stand_ins: Any, tmp_path: Path) -> None:
    artifact = eb.convert(linear(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")
    stand_ins.FAULTS["host_tensors"] = ("s",)
    with pytest.raises(ConversionError, match="the engine wants 's' in host memory"):
        eb.load(artifact)


def test_closing_gives_everything_back(stand_ins: Any, tmp_path: Path) -> None:
    import fake_cuda

    source = linear(tmp_path / "m.onnx", "n")
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=dynamic())
    wrapper = eb.load(artifact)
    for number in (1, 8, 4):
        wrapper({"x": rows(number)})
        assert len(fake_cuda.memory) == 6  # on both sides, for an input and two outputs
    wrapper.close()
    wrapper.close()
    assert fake_cuda.memory == {}
    assert list(fake_cuda.streams) == [0]


def test_a_device_by_its_number(stand_ins: Any, tmp_path: Path) -> None:
    import fake_cuda

    source = linear(tmp_path / "m.onnx")
    params = {"device": "cuda:1", "hardware_compatibility": "same_compute_capability"}
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=params)
    with eb.load(artifact) as wrapper:
        wrapper({"x": rows(2)})
        assert wrapper.receipt.device == "cuda:1"
    calls = ("build_serialized_network", "deserialize_cuda_engine", "execute_async_v3")
    assert [e[-1] for name in calls for e in stand_ins.LOG if e[0] == name] == [1, 1, 1]
    assert fake_cuda.here.device == 0  # the caller's is as it was


def test_cuda_graphs(stand_ins: Any, machine: Any, tmp_path: Path) -> None:
    artifact = eb.convert(
        linear(tmp_path / "m.onnx"),
        backend="tensorrt",
        work_dir=tmp_path / "a",
        params={"cuda_graph": True},
    )
    with eb.load(artifact, strict=True) as wrapper:
        assert wrapper.receipt.details["cuda_graph"] == "recorded"
        runs = stand_ins.LOG.count
        before = len([entry for entry in stand_ins.LOG if "execute_async_v3" in entry])
        for _ in range(3):
            x = rows(2)
            agree(wrapper({"x": x}), expected(x))
        assert len([entry for entry in stand_ins.LOG if "execute_async_v3" in entry]) == before == 2
        assert runs("create_execution_context") == 1
        assert len([entry for entry in machine.log if entry[0] == "cudaGraphLaunch"]) == 3


def test_an_engine_that_cannot_be_recorded(
    stand_ins: Any, machine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import fake_cuda

    execute = stand_ins.ExecutionContext.execute_async_v3

    def refuse(context: Any, stream_handle: int) -> bool:
        if fake_cuda.stream(stream_handle).recording is None:
            return execute(context, stream_handle)
        context._engine._logger.log(stand_ins.trt.ILogger.ERROR, "a loop cannot be captured")
        return False

    artifact = eb.convert(
        linear(tmp_path / "m.onnx"),
        backend="tensorrt",
        work_dir=tmp_path / "a",
        params={"cuda_graph": True},
    )
    monkeypatch.setattr(stand_ins.ExecutionContext, "execute_async_v3", refuse)
    with pytest.raises(ConversionError) as caught:
        eb.load(artifact)
    assert str(caught.value) == (
        "the engine cannot be recorded as a CUDA graph: a loop cannot be captured"
    )
    assert caught.value.hint == "convert it again without --cuda-graph"
    assert fake_cuda.memory == {}
    assert list(fake_cuda.streams) == [0]


def test_a_graph_of_open_shapes_is_a_fallback(stand_ins: Any, tmp_path: Path) -> None:
    artifact = eb.convert(
        linear(tmp_path / "m.onnx", "n"),
        backend="tensorrt",
        work_dir=tmp_path / "a",
        params=dynamic(cuda_graph=True),
    )
    with eb.load(artifact) as wrapper:
        assert wrapper.receipt.fallbacks == (
            "cuda_graph was asked for; the shape of x float32[x_0, 3] is not fixed",
        )


# -- torch tensors, with the CPU's memory in the place of the device's -----------------------------


def test_tensors_are_handed_over_by_address(
    on_cpu: Any, stand_ins: Any, machine: Any, tmp_path: Path
) -> None:
    import torch

    source = linear(tmp_path / "m.onnx", "n")
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=dynamic())
    with eb.load(artifact) as wrapper:
        x = torch.from_numpy(rows(4))
        machine.log.clear()
        found = wrapper({"x": x})
        assert machine.log == []  # no copy, no wait
        assert ("execute_async_v3", 0x77, 0) in stand_ins.LOG
        wrapper.synchronize()
        agree({name: y.numpy() for name, y in found.items()}, expected(x.numpy()))
        strided = torch.from_numpy(rows(8)).clone()[::2]  # torch's memory is aligned
        found = wrapper({"x": strided})
        wrapper.synchronize()
        agree({name: y.numpy() for name, y in found.items()}, expected(strided.numpy()))


def test_an_empty_tensor_has_no_address(on_cpu: Any, tmp_path: Path) -> None:
    import torch

    shapes = {"min_shapes": "0x3", "input_shapes": "4x3", "max_shapes": "8x3"}
    source = linear(tmp_path / "m.onnx", "n")
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=shapes)
    with eb.load(artifact) as wrapper:
        x = torch.empty(0, 3)
        assert x.data_ptr() == 0
        found = wrapper({"x": x})
        wrapper.synchronize()
        assert (found["y"].shape, found["s"].shape) == ((0, 4), (0,))


def test_a_context_waits_for_its_last_call_on_another_stream(
    on_cpu: Any, machine: Any, tmp_path: Path
) -> None:
    import torch

    artifact = eb.convert(linear(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")
    with eb.load(artifact) as wrapper:
        first, second = torch.from_numpy(rows(2)), torch.from_numpy(rows(2))
        one = wrapper({"x": first})
        on_cpu.cuda_stream = 0x88
        machine.log.clear()
        two = wrapper({"x": second})
        assert machine.log == [("cudaStreamWaitEvent", 0x88, 0x77)]
        wrapper.synchronize()
        agree({name: y.numpy() for name, y in one.items()}, expected(first.numpy()))
        agree({name: y.numpy() for name, y in two.items()}, expected(second.numpy()))


def test_tensors_and_a_shape_that_depends_on_the_data(on_cpu: Any, tmp_path: Path) -> None:
    import torch

    source = nonzero(tmp_path / "m.onnx")
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a")
    with eb.load(artifact) as wrapper:
        for x in (torch.tensor([0.0, 1, 0, 2, 0, 3]), torch.zeros(6), torch.ones(6)):
            found = wrapper({"x": x})
            wrapper.synchronize()
            torch.testing.assert_close(found["places"], x.nonzero().T)
            torch.testing.assert_close(found["twice"], x * 2)


def test_tensors_through_a_cuda_graph(on_cpu: Any, machine: Any, tmp_path: Path) -> None:
    import torch

    artifact = eb.convert(
        linear(tmp_path / "m.onnx"),
        backend="tensorrt",
        work_dir=tmp_path / "a",
        params={"cuda_graph": True},
    )
    with eb.load(artifact) as wrapper:
        kept = []
        machine.log.clear()
        for _ in range(3):
            x = torch.from_numpy(rows(2))
            kept.append((x, wrapper({"x": x})))
        assert not [entry for entry in machine.log if "Host" in entry[0] or "Sync" in entry[0]]
        wrapper.synchronize()
        for x, found in kept:  # the graph's own memory is used again, results are not
            agree({name: y.numpy() for name, y in found.items()}, expected(x.numpy()))


def test_the_default_stream_is_left_to_the_caller(
    on_cpu: Any, stand_ins: Any, machine: Any, tmp_path: Path
) -> None:
    """TensorRT waits on the host there; so it works beside, and each waits on the device."""
    import torch

    on_cpu.cuda_stream = 0
    artifact = eb.convert(linear(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")
    with eb.load(artifact) as wrapper:
        x = torch.from_numpy(rows(2))
        machine.log.clear()
        found = wrapper({"x": x})
        own = stand_ins.LOG[-1][1]
        assert own != 0
        assert machine.log == [("cudaStreamWaitEvent", own, 0), ("cudaStreamWaitEvent", 0, own)]
        again = wrapper({"x": x})
        wrapper.synchronize()
        for each in (found, again):
            agree({name: y.numpy() for name, y in each.items()}, expected(x.numpy()))


def test_the_default_stream_and_a_cuda_graph(on_cpu: Any, machine: Any, tmp_path: Path) -> None:
    import fake_cuda
    import torch

    on_cpu.cuda_stream = 0
    source, params = linear(tmp_path / "m.onnx"), {"cuda_graph": True}
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=params)
    with eb.load(artifact) as wrapper:
        x, wanted = torch.zeros(2, 3), torch.from_numpy(rows(2))
        # What the caller has put on the default stream comes first.
        fake_cuda.stream(0).put(lambda: [x.copy_(wanted)])
        machine.log.clear()
        found = wrapper({"x": x})
        assert [entry[1:] for entry in machine.log if entry[0] == "cudaStreamWaitEvent"] == [
            (machine.log[1][2], 0),
            (0, machine.log[1][2]),
        ]
        wrapper.synchronize()
        agree({name: y.numpy() for name, y in found.items()}, expected(wanted.numpy()))


def test_memory_that_is_taken_late_is_waited_for(
    on_cpu: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Torch hands memory to the default stream's next work, which the runner's stream is not."""
    import fake_cuda
    import torch

    empty, done = torch.empty, []

    def used_before(*args: Any, **kwargs: Any) -> torch.Tensor:
        fake_cuda.stream(0).put(lambda: done.append(kwargs["dtype"]))
        return empty(*args, **kwargs)

    on_cpu.cuda_stream = 0
    artifact = eb.convert(nonzero(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")
    with eb.load(artifact) as wrapper:
        monkeypatch.setattr(torch, "empty", used_before)
        found = wrapper({"x": torch.ones(6)})
        (runner,) = wrapper._idle  # type: ignore[attr-defined]
        fake_cuda.cudaStreamSynchronize(runner._stream)
        assert done == [torch.float32, torch.uint8]
        assert found["places"].shape == (1, 6)


def test_views_that_begin_anywhere(on_cpu: Any, tmp_path: Path) -> None:
    """TensorRT wants aligned addresses, and a view's need not be."""
    import torch

    source = linear(tmp_path / "m.onnx", "n")
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=dynamic())
    with eb.load(artifact) as wrapper:
        view = torch.from_numpy(rows(9))[1:]
        assert view.is_contiguous()
        found = wrapper({"x": view})
        wrapper.synchronize()
        agree({name: y.numpy() for name, y in found.items()}, expected(view.numpy()))


def test_results_whose_shape_depends_on_the_data_are_let_go(
    on_cpu: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The bindings keep every allocator for good, so an allocator keeps no result."""
    import weakref

    import torch

    made: list[Any] = []
    empty = torch.empty

    def noticed(*args: Any, **kwargs: Any) -> torch.Tensor:
        tensor = empty(*args, **kwargs)
        made.append(weakref.ref(tensor))
        return tensor

    monkeypatch.setattr(torch, "empty", noticed)
    artifact = eb.convert(nonzero(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")
    with eb.load(artifact) as wrapper:
        for _ in range(3):
            found = wrapper({"x": torch.ones(6)})
            wrapper.synchronize()
            assert found["places"].shape == (1, 6)
        del found
        assert len(made) == 6
        assert [tensor() for tensor in made] == [None] * 6
        (runner,) = wrapper._idle  # type: ignore[attr-defined]
        assert len(runner._context._raw._kept) == 1


def test_no_memory_for_a_result_is_told_as_it_was_raised(
    on_cpu: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import torch

    empty = torch.empty

    def full(*args: Any, **kwargs: Any) -> torch.Tensor:
        if kwargs.get("dtype") is torch.uint8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return empty(*args, **kwargs)

    artifact = eb.convert(nonzero(tmp_path / "m.onnx"), backend="tensorrt", work_dir=tmp_path / "a")
    with eb.load(artifact) as wrapper:
        with monkeypatch.context() as patch:
            patch.setattr(torch, "empty", full)
            with pytest.raises(InferenceError, match="CUDA out of memory") as caught:
                wrapper({"x": torch.ones(6)})
            assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
        found = wrapper({"x": torch.ones(6)})
        wrapper.synchronize()
        assert found["places"].shape == (1, 6)
