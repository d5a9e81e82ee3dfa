"""A deployment from model to artifact, on the backend that needs no engine."""

from __future__ import annotations

import json
import linecache
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import (
    ArtifactExistsError,
    ConversionError,
    InputError,
    ModelError,
    NotVerifiedError,
    ParamsError,
    UsageError,
)
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from enginebay.authors.arrays import NumpyArray
    from enginebay.operations.steps import Step

pytestmark = pytest.mark.usefixtures("loopback")


class Two(nn.Module):
    """Two inputs, and nested outputs of float32, int64 and bool."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> dict[str, Any]:
        y = self.linear(x)
        return {"logits": y, "aux": {"ids": ids + 1, "positive": y > 0}}


def example(batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 4), torch.arange(batch)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Two, eb.Deployment]:
    model = Two()
    deployment = eb.deploy(
        model,
        example(),
        backend="loopback",
        work_dir=tmp_path_factory.mktemp("deployed") / "two",
        dynamic={"x": {0: ("batch", 1, 5)}, "ids": {0: "batch"}},
    )
    return model, deployment


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_invalid_timeout_is_refused(loopback: str, timeout: float, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^invalid timeout of .* seconds: expected more than 0$"):
        eb.deploy(
            torch.nn.ReLU(),
            torch.ones(1),
            backend=loopback,
            work_dir=tmp_path / "out",
            verify=eb.VerifyOptions(timeout=timeout),
        )
    assert not (tmp_path / "out").exists()


def test_the_verdict_comes_from_several_sizes_and_probes(
    deployed: tuple[Two, eb.Deployment],
) -> None:
    _, deployment = deployed
    verification = deployment.verification
    assert deployment.verdict == "verified"
    assert verification.basis is not None
    assert verification.basis.labels[0] == "example"
    assert {"redrawn", "permuted", "zeros"} < set(verification.basis.labels)
    assert verification.samples == 27
    assert len(verification.basis.labels) == 28  # with NaN and infinity, which are not judged
    assert verification.reference == "the PyTorch model, unpatched"
    assert [step.name for step in deployment.steps] == [
        *("reference", "export", "convert", "verify", "publish"),
    ]
    assert all(step.seconds is not None and step.seconds >= 0 for step in deployment.steps)


def test_artifact_has_the_models_names_dtypes_and_dimensions(
    deployed: tuple[Two, eb.Deployment],
) -> None:
    artifact = deployed[1].artifact
    assert [spec.describe() for spec in artifact.inputs] == [
        "x float32[batch, 4]",
        "ids int64[batch]",
    ]
    assert [spec.describe() for spec in artifact.outputs] == [
        "logits float32[batch, 3]",
        "aux.ids int64[batch]",
        "aux.positive bool[batch, 3]",
    ]


@pytest.mark.parametrize("batch", [1, 5])
def test_artifact_returns_the_models_outputs(
    deployed: tuple[Two, eb.Deployment], batch: int
) -> None:
    model, deployment = deployed
    x, ids = example(batch)
    with eb.load(deployment.artifact) as wrapper:
        outputs = wrapper({"x": x, "ids": ids})
    expected = model(x, ids)
    torch.testing.assert_close(outputs["logits"], expected["logits"])
    assert torch.equal(outputs["aux.ids"], expected["aux"]["ids"])


NAMED = """
import json, sys
import enginebay as eb

sys.path[:0] = json.loads(sys.argv[1])
for name in ("net.py:biuld", "net.py:Net", "none.py:build"):
    try:
        eb.deploy(name, backend="loopback", work_dir="out")
    except eb.EnginebayError as err:
        print(err, "torch" in sys.modules)
deployed = eb.deploy("net.py:build", backend="loopback", work_dir="out")
print(*(step.name for step in deployed.steps))
"""


@pytest.mark.process
def test_a_wrong_name_is_refused_before_the_import_of_torch_which_is_a_step(
    loopback: str, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n"
        "    def forward(self, x):\n        return x.relu()\n\n"
        "def build():\n    return Net(), torch.ones(1, 2)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", NAMED, json.dumps(sys.path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert run.stdout.splitlines() == [
        "'net.py:biuld': there is no 'biuld' in 'net.py' False",
        "'net.py:Net' has no example inputs False",
        "no file 'none.py' False",
        "import torch reference export convert verify publish",
    ]


def test_a_moved_artifact_loads_in_a_process_without_torch(
    deployed: tuple[Two, eb.Deployment], tmp_path: Path
) -> None:
    model, deployment = deployed
    moved = tmp_path / "elsewhere" / "größer mit blank"
    shutil.copytree(deployment.artifact.path, moved)
    code = (
        "import sys, json, numpy as np, enginebay as eb\n"
        "sys.modules['torch'] = None\n"  # any import of torch fails
        "sys.path[:0] = json.loads(sys.argv[2])\n"
        "with eb.load(sys.argv[1]) as wrapper:\n"
        "    y = wrapper({'x': np.ones((1, 4), np.float32), 'ids': np.zeros(1, np.int64)})\n"
        "print(json.dumps(y['logits'].tolist()))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(moved), json.dumps(sys.path)],
        check=True,
        capture_output=True,
        text=True,
    )
    expected = model(torch.ones(1, 4), torch.zeros(1, dtype=torch.int64))["logits"]
    np.testing.assert_allclose(json.loads(run.stdout), expected.detach().numpy(), rtol=1e-5)


def test_manifest_records_backend_versions_and_files(deployed: tuple[Two, eb.Deployment]) -> None:
    manifest = deployed[1].artifact.manifest
    assert manifest.backend == "loopback"
    assert manifest.plugin.distribution == "temporary-loopback"
    assert manifest.torch_version == torch.__version__
    assert manifest.ir is not None
    assert manifest.ir.exporter == "torch.onnx dynamo"
    assert manifest.receipt == deployed[1].receipt
    assert {entry.path for entry in manifest.files} == {"model.onnx", "samples.npz"}
    assert "work_dir" not in manifest.params


def test_manifest_records_the_python_call_and_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relu, x = nn.ReLU(), torch.ones(1, 3)
    deployment = eb.deploy(
        relu,
        x,  # the example
        backend="loopback",
        work_dir="out",
    )
    line, _, comment = deployment.artifact.manifest.command.partition("  # ")
    call, _, place = comment.partition(" in ")
    # The comment names the call, and the line runs its script.
    assert line == f"cd {tmp_path} && {shlex.join(sys.orig_argv)}"
    assert call == "eb.deploy(relu, x, backend='loopback', work_dir='out')"
    assert re.fullmatch(rf"{re.escape(__file__)}, line \d+", place)
    file = deployment.artifact.path / "model.onnx"
    convert = {"backend": "loopback", "work_dir": tmp_path / "b"}
    converted = eb.convert(file, **convert).manifest.command  # type: ignore[arg-type]
    assert "  # eb.convert(file, **convert) in " in converted
    typed: dict[str, Any] = {"eb": eb, "relu": relu, "x": x}
    exec("made = eb.deploy(relu, x, backend='loopback', work_dir='typed')", typed)
    assert typed["made"].artifact.manifest.command == ""


def test_manifest_records_the_call_alone_if_it_is_in_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cell = "made = eb.deploy(relu, x, backend='loopback', work_dir='out')"
    monkeypatch.setitem(linecache.cache, "<cell 3>", (len(cell), None, [cell], "<cell 3>"))
    names: dict[str, Any] = {"eb": eb, "relu": nn.ReLU(), "x": torch.ones(1, 3)}
    exec(compile(cell, "<cell 3>", "exec"), names)
    assert names["made"].artifact.manifest.command == (
        "eb.deploy(relu, x, backend='loopback', work_dir='out') in <cell 3>, line 1"
    )


def test_verify_compares_with_the_recorded_outputs(deployed: tuple[Two, eb.Deployment]) -> None:
    verification = eb.verify(deployed[1].artifact)
    assert verification.verdict == "verified"
    assert verification.reference == "the recorded outputs of the PyTorch model, unpatched"


def test_verify_accepts_a_module_or_outputs_as_reference(
    deployed: tuple[Two, eb.Deployment],
) -> None:
    model, deployment = deployed
    x, ids = example(3)
    inputs = {"x": x, "ids": ids}
    assert eb.verify(deployment.artifact, inputs, model).verdict == "verified"
    outputs = model(x, ids)
    named = {
        "logits": outputs["logits"],
        "aux.ids": outputs["aux"]["ids"] + 1,
        "aux.positive": outputs["aux"]["positive"],
    }
    verification = eb.verify(deployment.artifact, inputs, named)
    assert verification.verdict == "mismatched"
    assert [output.name for output in verification.outputs if not output.passed] == ["aux.ids"]


def test_verify_accepts_several_sets_of_inputs(deployed: tuple[Two, eb.Deployment]) -> None:
    model, deployment = deployed
    sets = [dict(zip(("x", "ids"), example(size), strict=True)) for size in (1, 2, 3)]
    several = eb.verify(deployment.artifact, sets, model)
    assert several.verdict == "verified"
    assert several.basis is not None
    assert several.basis.labels[:3] == ("item 0", "item 1", "item 2")
    recorded = eb.verify(deployment.artifact, deployment.artifact.samples()[:2], model)
    assert recorded.verdict == "verified"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            [{"x": np.ones((1, 4), "f4")}],
            "item 0 of the list given as data: input 'ids' is missing: ",
        ),
        ([], "the list given as data contains no items"),
        (np.ones(3), "wrong inputs: expected arrays or tensors x float32["),
        (3, "wrong inputs: expected arrays or tensors x float32["),
        ("no.npz", "no data set 'no.npz'"),
    ],
)
def test_verify_refuses_invalid_inputs(
    deployed: tuple[Two, eb.Deployment], inputs: Any, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        eb.verify(deployed[1].artifact, inputs, deployed[0])
    assert str(caught.value).startswith(message)


def test_reference_outputs_for_several_input_sets_are_refused(
    deployed: tuple[Two, eb.Deployment],
) -> None:
    sets = [dict(zip(("x", "ids"), example(), strict=True))] * 2
    with pytest.raises(UsageError) as caught:
        eb.verify(deployed[1].artifact, sets, {"logits": torch.ones(2, 3)})
    assert (
        str(caught.value) == "one set of outputs requires one set of inputs, found 2 sets of inputs"
    )
    assert caught.value.hint == "pass the model as the reference, or one set of inputs"


def test_verify_with_inputs_but_no_reference_is_refused(
    deployed: tuple[Two, eb.Deployment],
) -> None:
    with pytest.raises(
        UsageError, match="inputs were passed without a reference: there are no expected outputs"
    ):
        eb.verify(deployed[1].artifact, {"x": torch.ones(1, 4)})


def deploy_on_wrong_engine(work_dir: str | Path) -> NotVerifiedError:
    """Return the error about an engine whose outputs are a hundredth too large."""
    with pytest.raises(NotVerifiedError) as caught:
        eb.deploy(
            nn.Linear(3, 2),
            torch.ones(1, 3),
            backend="loopback",
            params={"gain": 1.01},
            work_dir=work_dir,
        )
    return caught.value


def test_wrong_engine_is_a_mismatch_and_not_published(tmp_path: Path) -> None:
    error = deploy_on_wrong_engine(tmp_path / "out")
    assert error.verdict.verdict == "mismatched"
    assert error.receipt.engine == f"onnx.reference {onnx.__version__}"
    assert "would pass" in str(error)
    assert list(tmp_path.iterdir()) == []


def test_the_hint_of_a_mismatch_has_no_folder_that_reads_as_a_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = deploy_on_wrong_engine("-out")
    assert "find the layer: enginebay bisect ./-out" in (error.hint or "")


def test_a_mismatch_is_published_on_request(tmp_path: Path) -> None:
    deployment = eb.deploy(
        nn.Linear(3, 2),
        torch.ones(1, 3),
        backend="loopback",
        params={"gain": 1.01},
        work_dir=tmp_path / "out",
        verify=eb.VerifyOptions(allow_mismatch=True),
    )
    assert deployment.verdict == "mismatched"
    assert eb.open_artifact(tmp_path / "out").verdict == "mismatched"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("__import__('os').kill(__import__('os').getpid(), 11)", "SIGSEGV"),
        ("__import__('os')._exit(9)", "9"),
        ("__import__('time').sleep(600)", "limit"),
    ],
    ids=["segfault", "exit", "hang"],
)
def test_engine_that_kills_or_hangs_its_process_is_crashed(
    tmp_path: Path, action: str, text: str, soon: int
) -> None:
    source = (
        "from enginebay_testing.loopback import *\n"
        "from enginebay_testing import loopback\n"
        "@eb.hookimpl\n"
        "def backend_info():\n"
        "    return eb.BackendInfo(name='crashing', irs=('onnx',), params=LoopbackParams)\n"
        "class Crashing(LoopbackWrapper):\n"
        f"    def execute(self, feed): {action}\n"
        "@eb.hookimpl\n"
        "def build_wrapper(request): return Crashing(request)\n"
        "check_env, to_backend = loopback.check_env, loopback.to_backend\n"
    )
    with temporary_backend("crashing", source), pytest.raises(NotVerifiedError) as caught:
        eb.deploy(
            nn.ReLU(),
            torch.ones(1, 3),
            backend="crashing",
            work_dir=tmp_path / "out",
            verify=eb.VerifyOptions(timeout=6 * soon if text == "limit" else 600),
        )
    assert caught.value.verdict.verdict == "crashed"
    assert caught.value.receipt is None
    assert text in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_files_that_crash_on_load_are_not_published(tmp_path: Path) -> None:
    source = (
        "from enginebay_testing.loopback import *\n"
        "from enginebay_testing import loopback\n"
        "import os\n"
        "@eb.hookimpl\n"
        "def backend_info():\n"
        "    return eb.BackendInfo(name='dying', irs=('onnx',), params=LoopbackParams)\n"
        "@eb.hookimpl\n"
        "def build_wrapper(request): os.kill(os.getpid(), 11)\n"
        "to_backend = loopback.to_backend\n"
    )
    ir = eb.export(nn.ReLU(), torch.ones(1, 3), path=tmp_path / "relu.onnx")
    with temporary_backend("dying", source), pytest.raises(ConversionError) as caught:
        eb.convert(ir, backend="dying", work_dir=tmp_path / "out")
    start = "the converted files cannot be loaded: the engine of backend 'dying' ended with SIGSEGV"
    assert str(caught.value).startswith(start)
    assert not (tmp_path / "out").exists()


def test_convert_records_the_engine_that_loaded_its_files(loopback: str, tmp_path: Path) -> None:
    ir = eb.export(nn.ReLU(), torch.ones(1, 3), path=tmp_path / "relu.onnx")
    manifest = eb.convert(ir, backend=loopback, work_dir=tmp_path / "out").manifest
    assert manifest.receipt is not None
    assert manifest.receipt.engine.startswith("onnx.reference ")
    assert manifest.verification is not None
    assert manifest.verification.summary() == (
        "unverified: converted without a reference to compare with"
    )
    assert not (tmp_path / "out" / "samples.npz").exists()


def test_work_dir_with_foreign_files_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious.txt").write_text("mine")
    seen: list[Step] = []
    with pytest.raises(ArtifactExistsError):
        eb.deploy(
            nn.ReLU(),
            torch.ones(1),
            backend="loopback",
            work_dir=tmp_path / "out",
            overwrite=True,
            watch=seen.append,
        )
    assert seen == []
    assert (tmp_path / "out" / "precious.txt").read_text() == "mine"


def test_the_old_artifact_survives_a_failed_overwrite(tmp_path: Path) -> None:
    target: dict[str, Any] = {"backend": "loopback", "work_dir": tmp_path / "out"}
    eb.deploy(nn.ReLU(), torch.ones(1, 3), **target)
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    with pytest.raises(NotVerifiedError):
        eb.deploy(
            nn.Linear(3, 3),
            torch.ones(1, 3),
            params={"gain": 2.0},
            overwrite=True,
            **target,
        )
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before
    assert eb.verify(tmp_path / "out").verdict == "verified"
    eb.deploy(nn.Tanh(), torch.ones(1, 3), overwrite=True, **target)
    assert (tmp_path / "out" / "manifest.json").read_bytes() != before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_error_in_forward_is_a_model_error(tmp_path: Path) -> None:
    class Raises(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no fuel")

    with pytest.raises(ModelError, match="the model's forward raised ValueError: no fuel"):
        eb.deploy(Raises(), torch.ones(1), backend="loopback", work_dir=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_model_without_example_inputs_hints_at_the_input_option(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        eb.deploy(nn.ReLU(), backend="loopback", work_dir=tmp_path / "out")
    assert str(caught.value) == "'an object of type ReLU' has no example inputs"
    assert caught.value.hint is not None
    assert "--input NAME=1x3x224x224" in caught.value.hint


def test_shape_params_generate_inputs_and_dynamic_dimensions(tmp_path: Path) -> None:
    deployment = eb.deploy(
        nn.Conv2d(3, 4, 3),
        backend="loopback",
        work_dir=tmp_path / "out",
        params={"input_shapes": "2x3x8x8", "min_shapes": "1x3x8x8", "max_shapes": "4x3x8x8"},
    )
    assert deployment.verdict == "verified"
    assert deployment.verification.samples == 9
    assert deployment.artifact.inputs[0].dims == ("input_0", 3, 8, 8)


def test_nan_in_reference_and_engine_is_verified(tmp_path: Path) -> None:
    class Nan(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sqrt(x)

    deployment = eb.deploy(
        Nan(), torch.tensor([-1.0, 4.0]), backend="loopback", work_dir=tmp_path / "out"
    )
    assert deployment.verdict == "verified"
    assert "1 of 2 elements are NaN in both" in deployment.verification.summary()


def test_deployment_restores_training_mode_and_statistics(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3)).train()
    statistics = model[2].running_mean.clone()  # type: ignore[operator, union-attr]
    deployment = eb.deploy(model, torch.randn(2, 3), backend="loopback", work_dir=tmp_path / "out")
    assert deployment.verdict == "verified"
    assert all(module.training for module in model.modules())
    assert torch.equal(model[2].running_mean, statistics)  # type: ignore[arg-type]


def test_onnx_file_is_verified_against_onnx_reference_evaluator(tmp_path: Path) -> None:
    ir = eb.export(nn.Linear(3, 2), torch.ones(1, 3), path=tmp_path / "linear.onnx")
    deployment = eb.deploy(str(ir.path), backend="loopback", work_dir=tmp_path / "out")
    assert deployment.verdict == "verified"
    assert deployment.verification.reference == "onnx's reference evaluator"


@pytest.mark.parametrize("kind", ["torchscript", "exported_program"])
def test_torch_files_are_deployed_and_verified(tmp_path: Path, kind: Any) -> None:
    suffix = {"torchscript": ".pt", "exported_program": ".pt2"}[kind]
    ir = eb.export(
        nn.Linear(3, 2),
        torch.ones(1, 3),
        path=tmp_path / f"linear{suffix}",
        options=eb.ExportOptions(ir=kind),
    )
    deployment = eb.deploy(
        str(ir.path), torch.ones(1, 3), backend="loopback", work_dir=tmp_path / "o"
    )
    assert deployment.verdict == "verified"
    assert deployment.verification.reference == f"'linear{suffix}' in PyTorch"


def test_next_ir_is_tried_with_a_note_of_the_failure(tmp_path: Path) -> None:
    source = (
        "from enginebay_testing.loopback import *\n"
        "from enginebay_testing import loopback\n"
        "@eb.hookimpl\n"
        "def backend_info():\n"
        "    irs = ('torchscript', 'onnx')\n"
        "    return eb.BackendInfo(name='picky', irs=irs, params=LoopbackParams)\n"
        "@eb.hookimpl\n"
        "def to_backend(request):\n"
        "    (request.work_dir / 'half-written').write_text('x')\n"
        "    if request.ir.kind == 'torchscript':\n"
        "        raise RuntimeError('I cannot read aten::relu')\n"
        "    return loopback.to_backend(request)\n"
        "check_env, build_wrapper = loopback.check_env, loopback.build_wrapper\n"
    )
    with temporary_backend("picky", source):
        deployment = eb.deploy(
            nn.ReLU(), torch.ones(1, 3), backend="picky", work_dir=tmp_path / "out"
        )
    assert deployment.verdict == "verified"
    assert deployment.notes[0] == (
        "torchscript was not used: backend 'picky' could not convert 'model.pt': "
        "RuntimeError: I cannot read aten::relu"
    )


def test_error_lists_the_failure_of_every_ir(tmp_path: Path) -> None:
    source = (
        "from enginebay_testing.loopback import *\n"
        "from enginebay_testing import loopback\n"
        "@eb.hookimpl\n"
        "def backend_info():\n"
        "    irs = ('torchscript', 'onnx')\n"
        "    return eb.BackendInfo(name='never', irs=irs, params=LoopbackParams)\n"
        "@eb.hookimpl\n"
        "def to_backend(request): raise RuntimeError(f'not {request.ir.kind}')\n"
        "check_env, build_wrapper = loopback.check_env, loopback.build_wrapper\n"
    )
    with temporary_backend("never", source), pytest.raises(ConversionError) as caught:
        eb.deploy(nn.ReLU(), torch.ones(1, 3), backend="never", work_dir=tmp_path / "out")
    assert "not torchscript" in str(caught.value)
    assert "not onnx" in str(caught.value)


def test_unknown_params_field_or_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="'gian', which is not one of its fields"):
        eb.deploy(
            nn.ReLU(), torch.ones(1), backend="loopback", work_dir=tmp_path, params={"gian": 1}
        )
    with pytest.raises(
        UsageError, match="expected LoopbackParams or a mapping, found BackendParams"
    ):
        eb.deploy(
            nn.ReLU(),
            torch.ones(1),
            backend="loopback",
            work_dir=tmp_path,
            params=eb.BackendParams(),
        )


def test_options_are_accepted_as_mappings(tmp_path: Path) -> None:
    made = eb.deploy(
        nn.ReLU(),
        torch.ones(1, 3),
        backend="loopback",
        work_dir=tmp_path / "out",
        export={"output_names": ["y"]},
        verify={"probes": 1, "rtol": 1e-3},
    )
    assert made.verification.samples == 2
    (output,) = made.verification.outputs
    assert (output.name, output.rtol) == ("y", 1e-3)
    again = eb.verify(made.artifact, options={"rtol": 1e-2}).outputs[0]
    assert again.rtol == 1e-2
    ir = eb.export(nn.ReLU(), torch.ones(1), path=tmp_path / "m", options={"ir": "torchscript"})
    assert ir.kind == "torchscript"


@pytest.mark.parametrize(
    ("argument", "value", "message", "hint"),
    [
        (
            "export",
            {"exportr": "dynamo"},
            "ExportOptions got 'exportr'",
            "did you mean 'exporter'?",
        ),
        ("verify", {"rtoll": 1e-3}, "VerifyOptions got 'rtoll'", "did you mean 'rtol'?"),
        ("verify", {1: 2}, "VerifyOptions got '1'", None),
    ],
)
def test_unknown_option_is_an_error_with_the_nearest_name(
    argument: str, value: Any, message: str, hint: str | None, tmp_path: Path
) -> None:
    with pytest.raises(ParamsError) as caught:
        eb.deploy(nn.ReLU(), torch.ones(1), work_dir=tmp_path / "out", **{argument: value})
    assert str(caught.value).startswith(f"{message}, which is not one of its fields: ")
    assert caught.value.hint == hint
    assert list(tmp_path.iterdir()) == []


def test_options_of_the_wrong_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="cannot be converted to ExportOptions: expected a mapp"):
        eb.deploy(
            nn.ReLU(),
            torch.ones(1),
            work_dir=tmp_path,
            export=eb.VerifyOptions(),  # type: ignore[arg-type]  # the error under test
        )


def test_ir_is_stored_on_request(tmp_path: Path) -> None:
    deployment = eb.deploy(
        nn.ReLU(),
        torch.ones(1),
        backend="loopback",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(keep_ir=True),
    )
    assert (deployment.artifact.path / "ir" / "model.onnx").is_file()


def test_wrong_rewriter_is_a_mismatch(tmp_path: Path) -> None:
    rewriters = eb.RewriterSet()

    @rewriters.function("torch.relu")
    def wrong(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 0.5

    class Relu(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x)

    with pytest.raises(NotVerifiedError):
        eb.deploy(
            Relu(),
            torch.ones(1, 3),
            backend="loopback",
            work_dir=tmp_path / "out",
            export=eb.ExportOptions(rewriters=[rewriters]),
        )


def test_applied_and_unused_rewriters_are_reported(tmp_path: Path) -> None:
    rewriters = eb.RewriterSet()

    @rewriters.function("torch.relu")
    def right(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(x, min=0)

    @rewriters.function("torch.erf")
    def never(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return ctx.origin_func(x)

    class Relu(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x)

    deployment = eb.deploy(
        Relu(),
        torch.ones(1, 3),
        backend="loopback",
        work_dir=tmp_path / "o",
        export=eb.ExportOptions(rewriters=[rewriters]),
    )
    assert deployment.verdict == "verified"
    assert deployment.rewriting is not None
    assert list(deployment.rewriting.fired) == ["torch.relu"]
    assert "torch.erf" in str(deployment.rewriting.never_fired)


def test_input_dropped_by_the_exporter_is_not_required(tmp_path: Path) -> None:
    class Unused(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return x * 2

    deployment = eb.deploy(
        Unused(),
        (torch.ones(3), torch.ones(3)),
        backend="loopback",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(exporter="torchscript"),
    )
    assert deployment.verdict == "verified"
    assert [spec.name for spec in deployment.artifact.inputs] == ["x"]
    assert any("mask" in note for note in deployment.notes)


def test_a_foreign_exported_program_keeps_its_names(tmp_path: Path) -> None:
    class Nested(nn.Module):
        def forward(self, pair: dict[str, torch.Tensor]) -> torch.Tensor:
            return pair["a"] + pair["b"]

    args = ({"a": torch.ones(2), "b": torch.zeros(2)},)
    torch.export.save(torch.export.export(Nested(), args), str(tmp_path / "nested.pt2"))
    deployment = eb.deploy(
        str(tmp_path / "nested.pt2"), args, backend="loopback", work_dir=tmp_path / "out"
    )
    assert deployment.verdict == "verified"
    assert [spec.name for spec in deployment.artifact.inputs] == ["pair_a", "pair_b"]


def test_data_items_from_a_reused_buffer_are_copied(tmp_path: Path, loopback: str) -> None:
    buffer = np.empty((2, 4), np.float32)

    def fill() -> Iterator[NumpyArray]:
        for number in range(4):
            buffer[:] = number
            yield buffer

    deployment = eb.deploy(
        nn.ReLU(), torch.ones(2, 4), backend=loopback, work_dir=tmp_path / "out", data=fill
    )
    items = [sample for sample in deployment.artifact.samples() if sample.kind == "item"]
    assert [int(sample.inputs["input"][0, 0]) for sample in items] == [0, 1, 2, 3]
    assert deployment.artifact.manifest.data.count == 4


def test_data_stream_is_read_only_as_far_as_needed(tmp_path: Path, loopback: str) -> None:
    read = []

    def stream() -> Iterator[NumpyArray]:
        for number in range(500):
            read.append(number)
            yield np.full((2, 4), number, np.float32)

    eb.deploy(nn.ReLU(), torch.ones(2, 4), backend=loopback, work_dir=tmp_path / "a", data=stream)
    assert max(read) <= 64
    with pytest.raises(InputError, match="the list given as data contains no items"):
        eb.deploy(nn.ReLU(), torch.ones(2, 4), backend=loopback, work_dir=tmp_path / "b", data=[])


def test_engine_with_absolute_paths_is_refused(tmp_path: Path) -> None:
    source = (
        "from enginebay_testing.loopback import *\n"
        "from enginebay_testing import loopback\n"
        "from pathlib import Path\n"
        "@eb.hookimpl\n"
        "def backend_info():\n"
        "    return eb.BackendInfo(name='rooted', irs=('onnx',), params=LoopbackParams)\n"
        "@eb.hookimpl\n"
        "def to_backend(request):\n"
        "    (model,) = loopback.to_backend(request)\n"
        "    (request.work_dir / 'index').write_text(str(model))\n"
        "    return [request.work_dir / 'index', model]\n"
        "@eb.hookimpl\n"
        "def build_wrapper(request):\n"
        "    Path((request.directory / 'index').read_text()).open().close()\n"
        "check_env = loopback.check_env\n"
    )
    ir = eb.export(nn.ReLU(), torch.ones(1, 3), path=tmp_path / "m.onnx")
    work_dir = tmp_path / "out"
    with temporary_backend("rooted", source):
        for make in (
            lambda: eb.deploy(ir.path, torch.ones(1, 3), backend="rooted", work_dir=work_dir),
            lambda: eb.convert(ir.path, backend="rooted", work_dir=work_dir),
        ):
            with pytest.raises(ConversionError, match="'rooted' could not load 'index': File") as e:
                make()
            assert e.value.hint is not None
            assert e.value.hint.startswith(
                "write paths that are relative: the files are moved once they are verified"
            )
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
