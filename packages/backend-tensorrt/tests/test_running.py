"""Shapes and profiles of the real builder; memory and errors of calls, on the stand-ins."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_models import agree, built, dynamic, expected, linear, nonzero, rows

import enginebay as eb
from enginebay.authors.arrays import ShapeProfile
from enginebay.authors.files import read_onnx
from enginebay.errors import ConversionError, InferenceError, InputError, ParamsError
from enginebay_tensorrt.builder import build_plan
from enginebay_tensorrt.params import TensorrtRtxParams

if TYPE_CHECKING:
    from pathlib import Path


def test_dynamic_shapes_run(stand_ins: Any, tmp_path: Path) -> None:
    source = linear(tmp_path / "m.onnx", "n")
    artifact = built(source, dynamic())
    (profile,) = stand_ins.PROFILES
    assert [tuple(shape) for shape in profile.get_shape("x")] == [(1, 3), (4, 3), (8, 3)]
    with eb.load(artifact) as wrapper:
        for number in (1, 8, 4, 8):
            x = rows(number)
            agree(wrapper({"x": x}), expected(x))
        with pytest.raises(InputError) as caught:
            wrapper({"x": rows(9)})
        assert str(caught.value) == (
            "the engine was not built for x (9, 3): its profiles include x (1, 3) to (8, 3)"
        )
        x = rows(2)
        agree(wrapper({"x": x}), expected(x))  # a refusal breaks nothing


def test_the_shapes_of_a_deployment_are_built(stand_ins: Any, tmp_path: Path) -> None:
    import torch

    made = eb.deploy(
        torch.nn.ReLU(),
        torch.ones(2, 3),
        backend="tensorrt-rtx",
        work_dir=tmp_path / "a",
        dynamic={"x": {0: ("batch", 1, 4, 8)}},
        export=eb.ExportOptions(exporter="torchscript", input_names=["x"]),
    )
    assert made.verdict == "verified"
    (profile,) = stand_ins.PROFILES
    assert [tuple(shape) for shape in profile.get_shape("x")] == [(1, 3), (4, 3), (8, 3)]
    with pytest.raises(ParamsError, match="input 'x' is dynamic"):
        eb.deploy(
            torch.nn.ReLU(),
            torch.ones(2, 3),
            backend="tensorrt-rtx",
            work_dir=tmp_path / "b",
            dynamic={"x": {0: "batch"}},
            export=eb.ExportOptions(input_names=["x"]),  # without a limit
        )


def test_a_call_selects_one_of_several_profiles(stand_ins: Any, tmp_path: Path) -> None:
    source = linear(tmp_path / "m.onnx", "n")
    more = dynamic(profiles=("x:16x3 / x:32x3 / x:64x3",))
    artifact = built(source, more)
    assert stand_ins.CONFIGS[-1].num_optimization_profiles == 2
    with eb.load(artifact) as wrapper:
        stand_ins.LOG.clear()
        for number in (2, 64, 20, 8):
            x = rows(number)
            agree(wrapper({"x": x}), expected(x))
        switches = [entry[1:] for entry in stand_ins.LOG if "profile" in entry[0]]
        (stream,) = {entry[1] for entry in stand_ins.LOG if entry[0] == "execute_async_v3"}
        assert switches == [(1, stream), (0, stream)]
        with pytest.raises(
            InputError, match=r"profiles include x \(1, 3\) to \(8, 3\), x \(16, 3\)"
        ):
            wrapper({"x": rows(9)})


def test_the_current_profile_is_reused_if_it_fits(stand_ins: Any, tmp_path: Path) -> None:
    """Changing it has TensorRT prepare its layers again."""
    source = linear(tmp_path / "m.onnx", "n")
    more = dynamic(profiles=("x:4x3 / x:8x3 / x:16x3",))
    artifact = built(source, more)
    with eb.load(artifact) as wrapper:
        for number in (16, 8, 16, 1, 8):  # 4 to 8 rows fit both
            wrapper({"x": rows(number)})
    assert [entry[1] for entry in stand_ins.LOG if "profile" in entry[0]] == [1, 0]


def test_shapes_that_tensorrt_cannot_infer_are_an_error(
    stand_ins: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    artifact = eb.convert(
        linear(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
    )
    with eb.load(artifact) as wrapper:
        monkeypatch.setattr(stand_ins.ExecutionContext, "infer_shapes", lambda _: ["x"])
        with pytest.raises(InferenceError, match=r"TensorRT cannot infer the shapes of x$"):
            wrapper({"x": rows(2)})


def test_a_dynamic_input_without_shapes_is_refused(stand_ins: Any, tmp_path: Path) -> None:
    with pytest.raises(ParamsError) as caught:
        eb.convert(
            linear(tmp_path / "m.onnx", "n"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
        )
    assert str(caught.value) == (
        "input 'x' is dynamic ('?x3'): TensorRT requires its smallest, usual and largest shapes"
    )
    assert caught.value.hint == "--min-shapes x:1x3 --input-shapes x:4x3 --max-shapes x:8x3"


def test_a_profile_that_tensorrt_rejects_is_an_error(stand_ins: Any, tmp_path: Path) -> None:
    """Parameters are checked before; the profile of a deployment is not."""
    ir = read_onnx(linear(tmp_path / "m.onnx", "n"))
    with pytest.raises(ConversionError) as caught:
        build_plan(
            ir.path,
            TensorrtRtxParams(),
            None,
            BytesIO(),
            inputs=ir.inputs,
            outputs=ir.outputs,
            shapes={"x": ShapeProfile((5, 3), (4, 3), (8, 3))},
            progress=lambda _: None,
        )
    assert str(caught.value).startswith(
        "TensorRT for RTX rejects the optimisation profile x (5, 3) to (8, 3): "
        "IOptimizationProfile::isValid: "
    )
    assert "satisfy MIN<=OPT<=MAX" in str(caught.value)


# -- contexts, memory, CUDA graphs ----------------------------------------------------------------


def test_a_failing_engine_is_an_error(stand_ins: Any, tmp_path: Path) -> None:
    artifact = eb.convert(
        linear(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
    )
    with eb.load(artifact) as wrapper:
        stand_ins.FAULTS["execute"] = "Cuda Runtime (misaligned address)"
        with pytest.raises(InferenceError) as caught:
            wrapper({"x": rows(2)})
        assert str(caught.value) == (
            f"tensorrt-rtx {stand_ins.trt.__version__} failed on x float32(2, 3): "
            "Cuda Runtime (misaligned address)"
        )
        del stand_ins.FAULTS["execute"]
        x = rows(2)
        agree(wrapper({"x": x}), expected(x))
        assert stand_ins.LOG.count("create_execution_context") == 2  # the first may be in any state


def test_a_refused_call_allocates_no_memory(stand_ins: Any, machine: Any, tmp_path: Path) -> None:
    source = linear(tmp_path / "m.onnx", "n")
    artifact = built(source, dynamic())
    with eb.load(artifact) as wrapper:
        machine.log.clear()
        with pytest.raises(InputError, match="was not built for"):
            wrapper({"x": rows(1000)})
        assert machine.log == []
        wrapper({"x": rows(4)})
        assert stand_ins.LOG.count("create_execution_context") == 1  # still the first


@pytest.mark.parametrize(
    ("method", "refused"),
    [
        ("set_input_shape", r"shape \(2, 3\) of input 'x'"),
        ("set_tensor_address", "the address of 'x'"),
        ("set_output_allocator", "an allocator for 'places'"),
        ("set_optimization_profile_async", "optimisation profile 1"),
    ],
)
def test_a_rejection_by_tensorrt_has_its_reason(
    stand_ins: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, refused: str
) -> None:
    if method == "set_output_allocator":
        source, params = nonzero(tmp_path / "m.onnx"), {}
    else:
        source = linear(tmp_path / "m.onnx", "n")
        params = dynamic(profiles=("x:16x3 / x:32x3 / x:64x3",))
    x = np.ones(6, np.float32) if not params else rows(16 if "profile" in method else 2)
    artifact = built(source, params)

    def refuse(context: Any, *_: Any) -> bool:
        context._engine._logger.log(stand_ins.trt.ILogger.ERROR, "Error Code 3: API Usage")
        return False

    with eb.load(artifact) as wrapper:
        monkeypatch.setattr(stand_ins.ExecutionContext, method, refuse)
        with pytest.raises(InferenceError, match=f"rejects {refused}: Error Code 3: API Usage$"):
            wrapper({"x": x})


def test_too_little_memory_for_a_context_is_an_error(stand_ins: Any, tmp_path: Path) -> None:
    artifact = eb.convert(
        linear(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
    )
    stand_ins.FAULTS["no_memory"] = True
    with pytest.raises(ConversionError, match="has no memory for another execution context"):
        eb.load(artifact)


def test_an_output_in_host_memory_is_refused(stand_ins: Any, tmp_path: Path) -> None:
    artifact = eb.convert(
        linear(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
    )
    stand_ins.FAULTS["host_tensors"] = ("s",)
    with pytest.raises(ConversionError, match="the engine requires the tensor 's' in host memory"):
        eb.load(artifact)


def test_closing_frees_all_resources(stand_ins: Any, tmp_path: Path) -> None:
    import fake_cuda

    source = linear(tmp_path / "m.onnx", "n")
    artifact = built(source, dynamic())
    wrapper = eb.load(artifact)
    for number in (1, 8, 4):
        wrapper({"x": rows(number)})
        assert len(fake_cuda.memory) == 6  # on both sides, for an input and two outputs
    wrapper.close()
    wrapper.close()
    assert fake_cuda.memory == {}
    assert list(fake_cuda.streams) == [0]


def test_the_device_is_selected_by_its_index(stand_ins: Any, tmp_path: Path) -> None:
    import fake_cuda

    source = linear(tmp_path / "m.onnx")
    params = {"device": "cuda:1", "hardware_compatibility": "same_compute_capability"}
    artifact = eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=params)
    with eb.load(artifact) as wrapper:
        wrapper({"x": rows(2)})
        assert wrapper.receipt.device == "cuda:1"
    calls = ("build_serialized_network_to_stream", "deserialize_cuda_engine", "execute_async_v3")
    assert [e[-1] for name in calls for e in stand_ins.LOG if e[0] == name] == [1, 1, 1]
    assert fake_cuda.here.device == 0  # the caller's is as it was


def test_cuda_graphs_are_recorded_and_replayed(
    stand_ins: Any, machine: Any, tmp_path: Path
) -> None:
    artifact = eb.convert(
        linear(tmp_path / "m.onnx"),
        backend="tensorrt-rtx",
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


def test_an_engine_that_cannot_be_recorded_is_an_error(
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
        backend="tensorrt-rtx",
        work_dir=tmp_path / "a",
        params={"cuda_graph": True},
    )
    monkeypatch.setattr(stand_ins.ExecutionContext, "execute_async_v3", refuse)
    with pytest.raises(ConversionError) as caught:
        eb.load(artifact)
    assert str(caught.value) == (
        "the engine cannot be recorded as a CUDA graph: a loop cannot be captured"
    )
    assert caught.value.hint == "convert the model again without --cuda-graph"
    assert fake_cuda.memory == {}
    assert list(fake_cuda.streams) == [0]


def test_a_cuda_graph_of_dynamic_shapes_is_a_fallback(stand_ins: Any, tmp_path: Path) -> None:
    artifact = eb.convert(
        linear(tmp_path / "m.onnx", "n"),
        backend="tensorrt-rtx",
        work_dir=tmp_path / "a",
        params=dynamic(cuda_graph=True),
    )
    with eb.load(artifact) as wrapper:
        assert wrapper.receipt.fallbacks == (
            "cuda_graph was requested, but the shape of x float32[x_0, 3] is not fixed",
        )
