"""Records next to an engine: versions, weights, plugins; and the log."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import enginebay as eb
from enginebay.errors import (
    ArtifactError,
    BackendUnavailableError,
    ConversionError,
    ParamsError,
    UsageError,
)
from enginebay_tensorrt.library import get_library
from enginebay_tensorrt.params import TensorrtParams, TensorrtRtxParams


def scaled(path: Path, by: float = 2.0) -> Path:
    """y = x · by."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "by"], ["y"], name="scale")],
        "scaled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
        [numpy_helper.from_array(np.array([by] * 3, np.float32), "by")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def artifact(tmp_path: Path, data: Any = None, **params: Any) -> eb.Artifact:
    source = scaled(tmp_path / "m.onnx")
    return eb.convert(source, backend="tensorrt", work_dir=tmp_path / "a", params=params, data=data)


X = np.array([1, -2, 3], np.float32)


# -- bound to a device and a version --------------------------------------------------------------


def test_the_manifest_has_what_the_engine_is_bound_to(stand_ins: Any, tmp_path: Path) -> None:
    import platform

    assert artifact(tmp_path).manifest.pinned == {
        "tensorrt": stand_ins.trt.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "gpu": "NVIDIA Fake 1",
        "compute_capability": "8.9",
    }


@pytest.mark.parametrize(
    ("params", "wanted"),
    [
        ({"version_compatible": True}, {"gpu": "NVIDIA Fake 1", "compute_capability": "8.9"}),
        ({"hardware_compatibility": "same_compute_capability"}, {"compute_capability": "8.9"}),
        ({"hardware_compatibility": "ampere_plus"}, {"gpu_generation": "Ampere or newer"}),
    ],
)
def test_compatible_engines_are_bound_to_fewer_properties(
    stand_ins: Any, tmp_path: Path, params: dict[str, Any], wanted: dict[str, str]
) -> None:
    pinned = dict(artifact(tmp_path, **params).manifest.pinned)
    version = stand_ins.trt.__version__
    major = version.partition(".")[0]
    assert pinned.pop("tensorrt") == (major if "version_compatible" in params else version)
    del pinned["platform"]
    assert pinned == wanted


def test_another_gpu_is_refused_before_the_engine_is_read(
    stand_ins: Any, machine: Any, tmp_path: Path
) -> None:
    import torch

    made = eb.deploy(
        *(torch.nn.ReLU(), torch.ones(2)),
        backend="tensorrt",
        work_dir=tmp_path / "a",
        export=eb.ExportOptions(exporter="torchscript", keep_ir=True),
    )
    stand_ins.LOG.clear()
    machine.names = ["NVIDIA Other"]
    with pytest.raises(ArtifactError) as caught:
        eb.load(made.artifact)
    assert str(caught.value) == (
        'the artifact runs only with gpu "NVIDIA Fake 1", found "NVIDIA Other"'
    )
    assert caught.value.hint is not None
    ir = made.artifact.path / "ir" / "model.onnx"
    assert caught.value.hint.endswith(f"from the IR in it: enginebay convert tensorrt {ir}")
    assert stand_ins.LOG == []
    again = eb.convert(ir, backend="tensorrt", work_dir=tmp_path / "b")  # as in the hint
    eb.load(again).close()


def test_another_version_is_refused_before_the_engine_is_read(
    stand_ins: Any, tmp_path: Path
) -> None:
    made = artifact(tmp_path)
    manifest = made.path / "manifest.json"
    content = json.loads(manifest.read_text())
    content["pinned"]["tensorrt"] = "10.0.1"
    manifest.write_text(json.dumps(content))
    stand_ins.LOG.clear()
    with pytest.raises(ArtifactError, match=r'runs only with tensorrt "10\.0\.1", found "1'):
        eb.load(made.path)
    assert stand_ins.LOG == []


def test_a_newer_gpu_is_accepted_for_ampere_plus(machine: Any, tmp_path: Path) -> None:
    made = artifact(tmp_path, hardware_compatibility="ampere_plus")
    machine.names, machine.capability = ["NVIDIA Newer"], (12, 0)
    eb.load(made).close()
    machine.capability = (7, 5)
    with pytest.raises(ArtifactError, match=r'"Ampere or newer", found "older, sm 7\.5"'):
        eb.load(made)


def test_loading_without_a_gpu_is_a_one_line_error(machine: Any, tmp_path: Path) -> None:
    made = artifact(tmp_path)
    machine.names = []
    with pytest.raises(BackendUnavailableError) as caught:
        eb.load(made)
    assert str(caught.value).startswith("device cuda:0 cannot be used: cudaGetDeviceProperties")
    assert caught.value.hint == "enginebay check-env tensorrt"


@pytest.mark.parametrize("device", ["cuda:0", "cuda:2"])
def test_building_without_a_gpu_is_a_one_line_error(
    machine: Any, tmp_path: Path, device: str
) -> None:
    machine.names = machine.names if device == "cuda:2" else []
    np.savez(tmp_path / "c.npz", x=X[None])
    with pytest.raises(BackendUnavailableError) as caught:
        artifact(tmp_path, device=device, precision="int8", data=tmp_path / "c.npz")
    assert str(caught.value).startswith(f"device {device} cannot be used: cudaGetDevicePropert")
    assert caught.value.hint == "enginebay check-env tensorrt"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda plan: b"something else", "Magic tag does not match"),
        (lambda plan: plan[:1000], r"the plan has 1000 of \d+ bytes"),
        (lambda plan: plan[:26] + b"\2" + plan[27:], r"the plan is of version 1\.7\.2\.116"),
    ],
    ids=["another file", "truncated", "another version"],
)
def test_a_plan_that_tensorrt_rejects_is_an_error(
    stand_ins: Any, tmp_path: Path, damage: Any, reason: str
) -> None:
    """The real one reads no plan without a driver; the stand-in looks at the real plan's head."""
    from enginebay_tensorrt import api

    plan = api.from_onnx(scaled(tmp_path / "m.onnx"), backend="tensorrt-rtx")
    (tmp_path / "m.engine").write_bytes(damage(plan))
    with pytest.raises(ConversionError) as caught:
        api.load(tmp_path / "m.engine", backend="tensorrt-rtx")
    text = str(caught.value)
    assert re.fullmatch(rf"TensorRT for RTX 1\.7\.1\.116 cannot load 'm.engine': {reason}", text)


def test_a_truncated_plan_is_an_error(stand_ins: Any, tmp_path: Path) -> None:
    made = artifact(tmp_path)
    engine = made.path / "model.engine"
    engine.write_bytes(engine.read_bytes()[:1000])
    with pytest.raises(ArtifactError, match=r"model\.engine"):
        eb.load(made.path)
    assert "deserialize_cuda_engine" not in {entry[0] for entry in stand_ins.LOG}


# -- weights outside the engine --------------------------------------------------------------------


def test_a_stripped_engine_gets_its_weights_back(stand_ins: Any, tmp_path: Path) -> None:
    made = artifact(tmp_path, strip_plan=True, precision="fp16")
    facts, _ = stand_ins.graph_of((made.path / "model.engine").read_bytes())
    assert facts["flags"] == ["REFIT_IDENTICAL", "STRIP_PLAN"]
    assert [file.name for file in made.files] == ["model.engine", "model.onnx"]
    with eb.load(made) as wrapper:
        np.testing.assert_array_equal(wrapper({"x": X})["y"], X * 2)
    assert "refit_cuda_engine" in stand_ins.LOG


def test_weights_are_replaced(stand_ins: Any, tmp_path: Path) -> None:
    from enginebay_tensorrt import api

    plan = api.from_onnx(scaled(tmp_path / "m.onnx"), refit=True)
    api.save(plan, tmp_path / "m.engine")
    new = scaled(tmp_path / "new.onnx", by=5)
    with api.load(tmp_path / "m.engine") as wrapper:
        np.testing.assert_array_equal(wrapper({"x": X})["y"], X * 2)
    with api.load(tmp_path / "m.engine", weights=new, refit=True) as wrapper:
        np.testing.assert_array_equal(wrapper({"x": X})["y"], X * 5)


@pytest.mark.parametrize("how", ["refit", "strip_plan"])
def test_weights_are_converted_to_the_engines_precision(
    stand_ins: Any, tmp_path: Path, how: str
) -> None:
    from enginebay_tensorrt import api

    params = {"precision": "fp16", how: True}
    source = scaled(tmp_path / "m.onnx")
    api.save(api.from_onnx(source, **params), tmp_path / "m.engine")
    with api.load(tmp_path / "m.engine", weights=source, **params) as wrapper:
        np.testing.assert_array_equal(wrapper({"x": X})["y"], X * 2)


def test_weights_for_a_calibrated_engine_are_refused(stand_ins: Any, tmp_path: Path) -> None:
    from enginebay_tensorrt import api

    with pytest.raises(ParamsError) as caught:
        api.load(tmp_path / "m.engine", weights="m.onnx", precision="int8", refit=True)
    assert str(caught.value) == (
        "an engine of precision int8 cannot load weights from 'm.onnx': the engine was built "
        "from a calibrated graph"
    )


def test_weights_of_another_graph_are_refused(stand_ins: Any, tmp_path: Path) -> None:
    from enginebay_tensorrt import api

    api.save(api.from_onnx(scaled(tmp_path / "m.onnx")), tmp_path / "m.engine")  # not refittable
    with pytest.raises(ConversionError) as caught:
        api.load(tmp_path / "m.engine", weights=tmp_path / "m.onnx")
    assert str(caught.value) == (
        "the weights in 'm.onnx' do not fit the engine: the graph is another"
    )


# -- plugins --------------------------------------------------------------------------------------


def test_plugin_libraries_are_copied_into_the_artifact(stand_ins: Any, tmp_path: Path) -> None:
    library = tmp_path / "libmine.so"
    library.write_bytes(f"a library of {tmp_path}".encode())
    made = artifact(tmp_path, plugins=[str(library)])
    assert [file.as_posix() for file in made.files] == ["model.engine", "plugins/libmine.so"]
    assert ("load_library", str(library)) in stand_ins.LOG
    library.unlink()
    stand_ins.LOG.clear()
    eb.load(made).close()  # the same bytes are loaded already
    assert not [entry for entry in stand_ins.LOG if entry[0] == "load_library"]


def load(plugins: list[str]) -> None:
    from enginebay_tensorrt.plugin_libraries import load_plugins

    load_plugins(get_library(TensorrtRtxParams()), map(Path, plugins))


def test_plugin_libraries_that_do_not_load_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"plugin library 'no\.so' is not a file"):
        load(plugins=["no.so"])
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(b"broken")
    with pytest.raises(ConversionError) as caught:
        load(plugins=[str(broken)])
    text = str(caught.value)
    assert text.startswith(f"plugin library '{broken}' cannot be loaded: ")
    assert f"{broken}: file too short" in text
    assert "cudaError" not in text  # without a driver it is logged with each error


def test_a_library_without_plugins_is_refused(tmp_path: Path) -> None:
    source, library = tmp_path / "empty.c", tmp_path / "libempty.so"
    source.write_text(
        "void *getCreators(int *count) { *count = 0; return 0; }\n"
        "void *getPluginCreators(int *count) { *count = 0; return 0; }\n"
        "void setLoggerFinder(void *finder) {}\n"
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    # The first is logged only while there is a builder.
    wanted = "No creator returned by getPluginCreators in |no reason was given"
    with pytest.raises(ConversionError, match=wanted):
        load(plugins=[str(library)])


def test_two_libraries_with_one_name_are_refused(stand_ins: Any, tmp_path: Path) -> None:
    paths = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "libmine.so").write_bytes(b"a library, %d" % number)
        paths.append(str(folder / "libmine.so"))
    with pytest.raises(
        UsageError, match=r"two plugin libraries have the same file name, 'libmine\.so'"
    ):
        artifact(tmp_path, plugins=paths)


# -- messages -------------------------------------------------------------------------------------


def test_messages_go_to_logging(stand_ins: Any, caplog: pytest.LogCaptureFixture) -> None:
    logger = get_library(TensorrtParams()).logger
    severity = stand_ins.trt.ILogger
    caplog.set_level("DEBUG", "enginebay.tensorrt")
    with logger.collecting() as errors:
        for level in (severity.VERBOSE, severity.INFO, severity.WARNING, severity.ERROR):
            logger.log(level, f"about {level.name}")
    logger.log(severity.INTERNAL_ERROR, "of another call")
    assert errors == ["about ERROR"]
    names = [record.levelname for record in caplog.records]
    assert names == ["DEBUG", "DEBUG", "WARNING", "DEBUG", "ERROR"]  # collected errors are raised


def test_params_know_their_weights_file() -> None:
    assert TensorrtParams(file_name="net.engine").weights_file == "net.onnx"
