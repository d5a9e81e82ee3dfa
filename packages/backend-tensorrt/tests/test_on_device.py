"""What holds on a GPU with TensorRT, and on the stand-ins: ``nox -s gpu`` runs this there.

These tests use public names only. Without a GPU the builder is that of TensorRT for
RTX, whose API is that of TensorRT 11, under TensorRT's name.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_models import agree, dynamic, expected, linear, nonzero, reshaped, rows

import enginebay as eb
from enginebay.authors.arrays import numpy_dtype
from enginebay.authors.artifacts import load_request
from enginebay.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def fresh(on_gpu: bool, request: pytest.FixtureRequest) -> None:
    """The stand-ins as if nothing had happened, where there is no GPU."""
    if not on_gpu:
        request.getfixturevalue("stand_ins")


@pytest.fixture
def insist_on(on_gpu: bool) -> Callable[[str], None]:
    """Skip where the GPU computes in no such precision: bf16 came with Ampere, fp8 with Ada."""

    def check(precision: str) -> None:
        from enginebay_tensorrt import cuda

        wanted = {"bf16": (8, 0), "fp8": (8, 9)}.get(precision, (0, 0))
        if on_gpu:
            device = cuda.device(0)
            found = tuple(map(int, device.compute_capability.split(".")))
            if found < wanted:
                pytest.skip(
                    f"{device.name} has no {precision}: expected sm {wanted}, found {found}"
                )

    return check


@pytest.fixture
def convert(tmp_path: Path, backend: str) -> Callable[..., eb.Artifact]:
    """Convert an ONNX file with parameters."""

    def make(source: Path, data: Any = None, **params: Any) -> eb.Artifact:
        return eb.convert(
            source, backend=backend, work_dir=tmp_path / "a", params=params, data=data
        )

    return make


def recorded(path: Path, count: int = 16) -> str:
    np.savez(path, x=np.stack([rows(2) for _ in range(count)]))
    return str(path)


@pytest.mark.parametrize(
    ("precision", "tolerance"),
    [("fp32", 1e-5), ("fp16", 5e-3), ("bf16", 5e-2), ("int8", 0.4), ("fp8", 0.4)],
)
def test_each_precision_is_verified(
    convert: Any, insist_on: Any, tmp_path: Path, precision: str, tolerance: float
) -> None:
    insist_on(precision)
    data = recorded(tmp_path / "c.npz") if precision in ("int8", "fp8") else None
    artifact = convert(linear(tmp_path / "m.onnx"), data=data, precision=precision)
    with eb.load(artifact, strict=True) as wrapper:
        x = rows(2)
        agree(wrapper({"x": x}), expected(x), tolerance)
        assert wrapper.receipt.precision == precision
        assert wrapper.output_names == ("y", "s")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_torch_model_is_deployed_and_verified(
    tmp_path: Path, backend: str, precision: str
) -> None:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.GELU()),
        *(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 2)),
    ).eval()
    made = eb.deploy(
        model,
        torch.randn(2, 3, 8, 8),
        backend=backend,
        work_dir=tmp_path / "a",
        params={"precision": precision},
        dynamic={"x": {0: ("batch", 1, 4, 5)}},
        export=eb.ExportOptions(input_names=["x"]),
    )
    assert made.verdict == "verified"
    with eb.load(made.artifact) as wrapper:
        x = torch.randn(5, 3, 8, 8)
        found = wrapper({"x": x})["output"]
        torch.testing.assert_close(found, model(x).detach(), rtol=1e-2, atol=1e-2)


def test_layers_are_timed_with_the_nodes_in_their_names(convert: Any, tmp_path: Path) -> None:
    artifact = convert(linear(tmp_path / "m.onnx"), cuda_graph=True)
    layers = load_request(artifact).time_layers({"x": rows(2)}, 5)
    assert all(layer.seconds > 0 for layer in layers)
    assert {"product", "sum"} <= {node for layer in layers for node in layer.nodes}


def test_results_and_inputs_never_change(convert: Any, tmp_path: Path) -> None:
    with eb.load(convert(linear(tmp_path / "m.onnx"))) as wrapper:
        first, second = rows(2), rows(2)
        kept = first.copy()
        found = wrapper({"x": first})
        wrapper({"x": second})
        agree(found, expected(kept))
        np.testing.assert_array_equal(first, kept)


def test_inputs_of_any_strides_are_correct(convert: Any, tmp_path: Path) -> None:
    with eb.load(convert(linear(tmp_path / "m.onnx", "n"), **dynamic())) as wrapper:
        wide = rows(8)
        for x in (wide[::2], wide[::-1], np.asfortranarray(wide), wide[:1]):
            agree(wrapper({"x": x}), expected(x))


def test_dynamic_shapes_have_limits(convert: Any, tmp_path: Path) -> None:
    profiles = dynamic(profiles=("x:16x3 / x:32x3 / x:64x3",))
    with eb.load(convert(linear(tmp_path / "m.onnx", "n"), **profiles)) as wrapper:
        for number in (1, 64, 20, 8, 3):
            x = rows(number)
            agree(wrapper({"x": x}), expected(x))
        with pytest.raises(InputError, match=r"the engine was not built for x \(9, 3\)"):
            wrapper({"x": rows(9)})
        x = rows(4)
        agree(wrapper({"x": x}), expected(x))


def test_an_empty_batch_gives_empty_outputs(convert: Any, tmp_path: Path) -> None:
    shapes = {"min_shapes": "0x3", "input_shapes": "4x3", "max_shapes": "8x3"}
    with eb.load(convert(linear(tmp_path / "m.onnx", "n"), **shapes)) as wrapper:
        found = wrapper({"x": rows(0)})
        assert found["y"].shape == (0, 4)
        x = rows(3)
        agree(wrapper({"x": x}), expected(x))


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool"]
)
def test_every_dtype_is_returned_unchanged(
    convert: Any, insist_on: Any, tmp_path: Path, backend: str, dtype: str
) -> None:
    insist_on("bf16" if dtype == "bfloat16" else "fp32")
    assert dtype in eb.get_backend(backend).info.dtypes
    x = np.array([[0, 1, 3], [1, 0, 2]]).astype(numpy_dtype(dtype))
    with eb.load(convert(reshaped(tmp_path / "m.onnx", dtype))) as wrapper:
        found = wrapper({"x": x})["y"]
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x.reshape(3, 2))


def test_a_shape_that_depends_on_the_data_is_built(convert: Any, tmp_path: Path) -> None:
    with eb.load(convert(nonzero(tmp_path / "m.onnx"))) as wrapper:
        for values in ([0, 1, 0, 2, 0, 3], [1] * 6, [0] * 6, [5, 0, 0, 0, 0, 0]):
            x = np.array(values, np.float32)
            found = wrapper({"x": x})
            np.testing.assert_array_equal(found["places"], [np.nonzero(x)[0]])
            np.testing.assert_array_equal(found["twice"], x * 2)


def test_overlapping_calls_are_correct(convert: Any, tmp_path: Path) -> None:
    inputs = [rows(1 + number % 8) for number in range(64)]
    with (
        eb.load(convert(linear(tmp_path / "m.onnx", "n"), **dynamic())) as wrapper,
        ThreadPoolExecutor(4) as pool,
    ):
        for x, found in zip(inputs, pool.map(lambda x: wrapper({"x": x}), inputs), strict=True):
            agree(found, expected(x))


NUMPY = """
import sys
import numpy as np
import enginebay as eb
with eb.load(sys.argv[1]) as wrapper:
    print(wrapper({"x": np.ones((2, 3), np.float32)})["y"].shape, "torch" in sys.modules)
"""


@pytest.mark.process
def test_arrays_need_no_torch(convert: Any, tmp_path: Path) -> None:
    artifact = convert(linear(tmp_path / "m.onnx"))
    command = [sys.executable, "-c", NUMPY, artifact.path]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.returncode) == ("(2, 4) False", 0), ran.stderr


def test_two_wrappers_run_at_once(convert: Any, tmp_path: Path) -> None:
    artifact = convert(linear(tmp_path / "m.onnx"))
    with eb.load(artifact) as one, eb.load(artifact) as two:
        x, z = rows(2), rows(2)
        found = one({"x": x})
        agree(two({"x": z}), expected(z))
        agree(found, expected(x))


@pytest.mark.parametrize(
    "params",
    [
        {"cuda_graph": True},
        {"strip_plan": True},
        {"refit": True},
        {"version_compatible": True},
        {"hardware_compatibility": "same_compute_capability"},
        {"optimization_level": 0, "workspace_size": 1 << 26},
        {"sparsity": True, "precision": "fp16"},
    ],
    ids=lambda params: next(iter(params)),
)
def test_engines_of_all_build_options_run(
    convert: Any, tmp_path: Path, backend: str, params: dict[str, Any]
) -> None:
    if not {*params} <= {*eb.get_backend(backend).Params.__struct_fields__}:
        pytest.skip(f"{backend} has no {' and no '.join(params)}")
    tolerance = 5e-3 if "precision" in params else 1e-5
    with eb.load(convert(linear(tmp_path / "m.onnx"), **params), strict=True) as wrapper:
        for _ in range(3):
            x = rows(2)
            agree(wrapper({"x": x}), expected(x), tolerance)


def test_weights_are_replaced(tmp_path: Path, backend: str) -> None:
    from enginebay_tensorrt import api

    source = linear(tmp_path / "m.onnx")
    api.save(api.from_onnx(source, backend=backend, refit=True), tmp_path / "m.engine")
    other = linear(tmp_path / "other.onnx", scale=3)
    names = ("y", "s")
    given = {"backend": backend, "weights": other, "refit": True}
    with api.load(tmp_path / "m.engine", output_names=names, **given) as wrapper:
        x = rows(2)
        agree(wrapper({"x": x}), expected(x, scale=3))


def test_calibration_data_may_be_an_iterable(tmp_path: Path, backend: str) -> None:
    from enginebay_tensorrt import api

    data = [{"x": rows(2)} for _ in range(16)]
    params: dict[str, Any] = {"backend": backend, "precision": "int8"}
    plan = api.from_onnx(linear(tmp_path / "m.onnx"), calibration_data=data, **params)
    api.save(plan, tmp_path / "m.engine")
    names = ("y", "s")
    with api.load(tmp_path / "m.engine", output_names=names, **params) as wrapper:
        x = rows(2)
        agree(wrapper({"x": x}), expected(x), 0.4)


def test_outputs_have_the_requested_order(tmp_path: Path, backend: str) -> None:
    from enginebay_tensorrt import api

    api.save(api.from_onnx(linear(tmp_path / "m.onnx"), backend=backend), tmp_path / "m.engine")
    with api.load(tmp_path / "m.engine", backend=backend, output_names=["s"]) as wrapper:
        assert list(wrapper({"x": rows(2)})) == ["s"]
    with pytest.raises(UsageError, match="unknown output 'z'; available: "):
        api.load(tmp_path / "m.engine", backend=backend, output_names=["z"])


def test_a_timing_cache_is_reused(on_gpu: bool, tmp_path: Path, backend: str) -> None:
    if not on_gpu or backend != "tensorrt":
        pytest.skip("TensorRT for RTX keeps no timing cache; test_timing_cache.py has a stand-in")
    from enginebay_tensorrt import api

    for _ in range(2):
        api.from_onnx(linear(tmp_path / "m.onnx"), timing_cache=str(tmp_path / "cache"))
    (file,) = (tmp_path / "cache").glob("*.timing")
    assert file.stat().st_size


# -- CUDA tensors; on the stand-ins, the CPU's memory takes their place ---------------------------


@pytest.fixture
def device(on_gpu: bool, request: pytest.FixtureRequest) -> str:
    """Where tensors are handed over without a copy."""
    if not on_gpu:
        request.getfixturevalue("on_cpu")
        return "cpu"
    import torch

    with warnings.catch_warnings(record=True) as told:
        if not torch.cuda.is_available():
            why = told[0].message if told else "it was built without CUDA"
            pytest.skip(f"torch {torch.__version__} does not reach the GPU: {why}")
    return "cuda"


@pytest.mark.parametrize("params", [{}, {"cuda_graph": True}], ids=["enqueued", "as a graph"])
def test_tensors_stay_on_the_device(
    convert: Any, tmp_path: Path, device: str, params: dict[str, Any]
) -> None:
    import torch

    with eb.load(convert(linear(tmp_path / "m.onnx"), **params)) as wrapper:
        calls = []
        for _ in range(4):
            x = rows(2)
            calls.append((x, wrapper({"x": torch.from_numpy(x).to(device)})))
        wrapper.synchronize()
        for x, found in calls:
            assert {y.device.type for y in found.values()} == {device}
            agree({name: y.cpu().numpy() for name, y in found.items()}, expected(x))


def test_tensors_with_a_data_dependent_shape_are_correct(
    convert: Any, tmp_path: Path, device: str
) -> None:
    import torch

    with eb.load(convert(nonzero(tmp_path / "m.onnx"))) as wrapper:
        for x in (torch.tensor([0.0, 1, 0, 2, 0, 3]), torch.zeros(6), torch.ones(6)):
            found = wrapper({"x": x.to(device)})
            wrapper.synchronize()
            torch.testing.assert_close(found["places"].cpu(), x.nonzero().T)


def test_calls_on_the_callers_streams_are_correct(
    convert: Any, tmp_path: Path, device: str
) -> None:
    if device != "cuda":
        pytest.skip("torch's own streams need a GPU; test_cuda_tensors.py has stand-ins for them")
    import torch

    with eb.load(convert(linear(tmp_path / "m.onnx"))) as wrapper:
        calls = []
        for stream in [torch.cuda.Stream() for _ in range(3)] * 4:
            with torch.cuda.stream(stream):
                x = rows(2)
                calls.append((x, wrapper({"x": torch.from_numpy(x).cuda()})))
        torch.cuda.synchronize()
        for x, found in calls:
            agree({name: y.cpu().numpy() for name, y in found.items()}, expected(x))
