"""Deployments of every kind of model source: exporters, IRs, references, moved artifacts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import enginebay as eb
import enginebay_lab as lab

from .conftest import MODELS, derived

if TYPE_CHECKING:
    from .conftest import Run


class Net(nn.Module):
    """A small network whose dropout differs between training and evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.linear(x)).relu()


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def files(net: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model as ``net.onnx``, ``net.pt`` and ``net.pt2``."""
    folder = tmp_path_factory.mktemp("files")
    x = torch.randn(2, 4)
    eb.export(net, x, path=folder / "net.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript itself is deprecated
        torch.jit.trace(net, x, check_trace=False).save(folder / "net.pt")
    torch.export.save(torch.export.export(net, (x,)), folder / "net.pt2")
    return folder


def numbers(artifact: Any, net: nn.Module) -> None:
    """Check that artifact and model agree on new inputs."""
    x = torch.randn(2, 4)
    with eb.load(artifact) as wrapper:
        (name,) = wrapper.input_names
        (found,) = wrapper({name: x}).values()
    torch.testing.assert_close(found, net(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_module_is_verified_with_either_exporter(
    net: nn.Module, tmp_path: Path, exporter: Any
) -> None:
    deployment = eb.deploy(
        net,
        torch.randn(2, 4),
        backend="onnxruntime",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(exporter=exporter),
    )
    assert deployment.verdict == "verified"
    assert deployment.notes == ()
    ir = deployment.artifact.manifest.ir
    assert ir is not None
    assert (ir.kind, ir.exporter) == ("onnx", f"torch.onnx {exporter}")
    assert deployment.receipt is not None
    assert deployment.receipt.provider == "CPUExecutionProvider"
    numbers(deployment.artifact, net)


@pytest.mark.parametrize(
    ("name", "reference", "exporter"),
    [
        ("net.onnx", "onnx's reference evaluator", "file"),
        ("net.pt", "'net.pt' in PyTorch", "torch.onnx torchscript"),
        ("net.pt2", "'net.pt2' in PyTorch", "torch.onnx dynamo"),
    ],
)
def test_model_file_is_verified_against_its_reference(
    cli: Run, files: Path, net: nn.Module, name: str, reference: str, exporter: str
) -> None:
    ran = cli(
        *("deploy", files / name, "--input", "x=2x4", "--backend", "onnxruntime"),
        *("--work-dir", "out", "--json"),
    )
    assert ran.code == 0, ran.err
    manifest = ran.document["manifest"]
    assert manifest["verification"]["verdict"] == "verified"
    assert manifest["verification"]["reference"] == reference
    assert manifest["ir"]["exporter"] == exporter
    numbers("out", net)
    again = cli("verify", "out", "--model", files / name, "--json")
    assert again.code == 0, again.err
    assert again.document["verification"]["reference"] == reference


def test_static_onnx_and_pt2_files_need_no_input_flags(cli: Run, files: Path) -> None:
    for name in ("net.onnx", "net.pt2"):
        ran = cli("deploy", files / name, "--work-dir", f"{name}.out", "--backend", "onnxruntime")
        assert ran.code == 0, ran.err
    ran = cli("deploy", files / "net.pt", "--work-dir", "out", "--backend", "onnxruntime")
    assert ran.code == 2
    headline = f"error: '{files}/net.pt' has no example inputs; it takes (x: Tensor)"
    assert ran.err.startswith(f"{headline}\nhint: ")


@pytest.mark.parametrize("source", ["models.py:build", "models:build", "./models.py:build"])
def test_python_source_is_found_by_file_and_by_module(cli: Run, source: str) -> None:
    ran = cli(
        *("deploy", source, "--work-dir", "out", "--exporter", "torchscript"),
        *("--backend", "onnxruntime", "--json"),
    )
    assert ran.code == 0, ran.err
    assert ran.document["verdict"] == "verified"


@pytest.mark.parametrize("given", ["x=x.npy", "x.npy", "x=5x4", "5x4", "x.npz"])
def test_class_is_deployed_with_inputs_of_the_command_line(
    cli: Run, here: Path, given: str
) -> None:
    np.save(here / "x.npy", np.ones((5, 4), np.float32))
    np.savez(here / "x.npz", x=np.ones((5, 4), np.float32))
    ran = cli(
        *("deploy", "models.py:Net", "--input", given, "--exporter", "torchscript"),
        *("--backend", "onnxruntime"),
    )
    assert ran.code == 0, ran.err
    assert "output  float32  5x3" in ran.out
    assert (here / "models-Net-onnxruntime" / "manifest.json").is_file()


# ── the choice of exporter and IR ───────────────────────────────────────────────────────────────


class Loops(nn.Module):
    """``torch.export`` refuses a loop whose length depends on a value; tracing unrolls it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(int(x.abs().sum() * 0) + 1):
            x = x + 1
        return x


def test_exporter_fallback_is_warned_about_and_recorded(tmp_path: Path) -> None:
    with pytest.warns(eb.VerdictWarning, match="test_deploy_sources.py"):
        deployment = eb.deploy(
            Loops(), torch.ones(2, 2), backend="onnxruntime", work_dir=tmp_path / "out"
        )
    assert deployment.verdict == "verified"
    assert re.match(
        "exported by the TorchScript exporter, because the default exporter failed: ",
        deployment.notes[0],
    )
    ir = deployment.artifact.manifest.ir
    assert ir is not None
    assert ir.exporter == "torch.onnx torchscript"
    assert ir.notes == deployment.notes, "the artifact records the fallback"


def test_exporter_fallback_is_printed(cli: Run, here: Path) -> None:
    (here / "loops.py").write_text(
        "import torch\nfrom torch import nn\n\n\n"
        "class Loops(nn.Module):\n"
        "    def forward(self, x):\n"
        "        for _ in range(int(x.abs().sum() * 0) + 1): x = x + 1\n"
        "        return x\n\n\n"
        "def build(): return Loops(), torch.ones(2, 2)\n"
    )
    ran = cli("deploy", "loops.py:build", "--backend", "onnxruntime", "--work-dir", "out")
    assert ran.code == 0
    note = "note      exported by the TorchScript exporter, because the default exporter failed: "
    assert f"\n{note}" in ran.out
    inspected = cli("inspect", "out").out
    assert note in inspected


#: A backend that runs whatever PyTorch can load.
TORCH = """\
import shutil, warnings
import torch
import enginebay as eb

IRS = {irs}

@eb.hookimpl
def backend_info(): return eb.BackendInfo(name="{name}", irs=IRS)

@eb.hookimpl
def to_backend(request):
    if request.ir.kind in {refused}:
        raise RuntimeError("no such layer: Frobnicate")
    target = request.work_dir / f"model{{request.ir.path.suffix}}"
    shutil.copyfile(request.ir.path, target)
    return [target]

class Wrapper(eb.Wrapper):
    def __init__(self, request):
        super().__init__(inputs=request.inputs, outputs=request.outputs)
        path = request.directory / request.files[0]
        if path.suffix == ".pt2":
            self.model = torch.export.load(path).module()
        elif path.suffix == ".pt":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.model = torch.jit.load(path)
        else:
            from onnx.reference import ReferenceEvaluator
            session = ReferenceEvaluator(str(path))
            names = [spec.name for spec in request.inputs]
            def run(*tensors):
                feed = dict(zip(names, [t.numpy() for t in tensors]))
                return tuple(torch.from_numpy(y.copy()) for y in session.run(None, feed))
            self.model = run

    @property
    def receipt(self): return eb.Receipt(engine=f"torch {{torch.__version__}}", device="cpu")

    def execute(self, feed):
        found = self.model(*[torch.from_numpy(feed[name].copy()) for name in self.input_names])
        found = found if isinstance(found, tuple) else (found,)
        return [tensor.detach().numpy() for tensor in found]

@eb.hookimpl
def build_wrapper(request): return Wrapper(request)
"""


def torch_backend(name: str, irs: tuple[str, ...], refused: tuple[str, ...] = ()) -> Any:
    from enginebay_testing import temporary_backend

    return temporary_backend(name, TORCH.format(name=name, irs=irs, refused=refused))


@pytest.mark.parametrize(
    ("irs", "kind", "exporter"),
    [
        (("torchscript", "onnx"), "torchscript", "torch.jit.trace"),
        (("exported_program", "onnx"), "exported_program", "torch.export"),
        (("onnx", "torchscript"), "onnx", "torch.onnx dynamo"),
    ],
)
def test_the_backends_preferred_ir_is_taken(
    net: nn.Module, tmp_path: Path, irs: tuple[str, ...], kind: str, exporter: str
) -> None:
    with torch_backend("anyir", irs):
        deployment = eb.deploy(net, torch.randn(2, 4), backend="anyir", work_dir=tmp_path / "out")
        ir = deployment.artifact.manifest.ir
        assert ir is not None
        assert (deployment.verdict, ir.kind, ir.exporter) == ("verified", kind, exporter)
        assert deployment.notes == ()
        numbers(deployment.artifact, net)


@pytest.mark.parametrize("irs", [("torchscript",), ("exported_program",)])
def test_model_file_is_not_exported_for_a_backend_of_its_ir(
    cli: Run, files: Path, net: nn.Module, irs: tuple[str, ...]
) -> None:
    name = {"torchscript": "net.pt", "exported_program": "net.pt2"}[irs[0]]
    with torch_backend("straight", irs):
        ran = cli(
            *("deploy", files / name, "--input", "x=2x4", "--backend", "straight"),
            *("--work-dir", "out", "--json"),
        )
        assert ran.code == 0, ran.err
        assert ran.document["manifest"]["ir"]["exporter"] == "file"
        numbers("out", net)
        ran = cli("convert", "straight", files / "net.onnx", "--work-dir", "other")
        assert ran.code == 1
        assert ran.err == (
            f"error: backend 'straight' cannot convert 'net.onnx': expected {irs[0]}, found onnx\n"
        )


def test_next_ir_is_used_and_noted_after_a_failed_conversion(cli: Run, here: Path) -> None:
    words = ("deploy", "models.py:build", "--backend", "picky", "--work-dir")
    with torch_backend("picky", ("torchscript", "exported_program"), ("torchscript",)):
        ran = cli(*words, "out")
        assert ran.code == 0, ran.err
        document = cli(*words, "again", "--json").document
    steps = [line.split()[0] for line in ran.out.splitlines()[1:9]]
    assert steps == [
        *("reference", "export", "convert", "export", "convert", "verify", "publish", "total"),
    ]
    assert [step["name"] for step in document["steps"] if step["failed"]] == ["convert"]
    (note,) = document["notes"]
    assert note.startswith("torchscript was not used: backend 'picky' could not convert 'model.pt'")
    assert note.endswith("RuntimeError: no such layer: Frobnicate")
    assert f"\nnote      {note}\n" in ran.out
    assert document["manifest"]["ir"]["kind"] == "exported_program"
    assert {path.name for path in (here / "out").iterdir()} == {
        *("manifest.json", "model.pt2", "samples.npz"),
    }


def test_failure_of_every_ir_is_reported_with_each_reason(cli: Run, here: Path) -> None:
    both = ("torchscript", "exported_program")
    with torch_backend("hopeless", both, both):
        ran = cli("deploy", "models.py:build", "--backend", "hopeless", "--work-dir", "out")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(
        "error: backend 'hopeless' could not convert the model with any IR: torchscript: "
    )
    assert "; exported_program: " in ran.err
    assert ran.err.count("Frobnicate") == 2
    assert not (here / "out").exists()


def test_hints_of_all_failed_irs_are_printed_once(cli: Run, here: Path) -> None:
    from enginebay_testing import temporary_backend

    kinds = ("torchscript", "exported_program", "onnx")
    plugin = TORCH.format(name="advising", irs=kinds, refused=kinds).replace(
        'RuntimeError("no such layer: Frobnicate")',
        """eb.errors.ConversionError(
            "no such layer: Frobnicate",
            hint="a newer engine" if request.ir.kind == "onnx" else "--param layers=all",
        )""",
    )
    with temporary_backend("advising", plugin):
        ran = cli("deploy", "models.py:build", "--backend", "advising", "--work-dir", "out")
    assert ran.code == 1
    assert ran.err.endswith("hint: --param layers=all; or a newer engine\n")


def test_keep_ir_stores_the_ir_in_the_artifact(cli: Run, here: Path) -> None:
    words = ("deploy", "models.py:build", "--exporter", "torchscript", "--backend", "onnxruntime")
    assert cli(*words, "--work-dir", "with", "--keep-ir").code == 0
    assert cli(*words, "--work-dir", "without").code == 0
    assert (here / "with" / "ir" / "model.onnx").is_file()
    assert not (here / "without" / "ir").exists()
    assert cli("verify", "with").code == 0


# ── the reference of a file ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def unknown_to_the_evaluator(here: Path) -> Path:
    """A model of an operator that ONNX Runtime supports and onnx's evaluator does not."""
    from onnx import helper

    x, y = (helper.make_tensor_value_info(n, 1, [2, 4]) for n in "xy")
    node = helper.make_node("FastGelu", ["x"], ["y"], domain="com.microsoft")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph([node], "g", [x], [y]), opset_imports=opsets, ir_version=9
    )
    onnx.save(model, here / "gelu.onnx")
    return here / "gelu.onnx"


def test_a_second_engine_is_the_reference_where_the_evaluator_cannot(
    cli: Run, unknown_to_the_evaluator: Path
) -> None:
    with derived("second", ""):
        ran = cli("deploy", "gelu.onnx", "--backend", "onnxruntime", "--work-dir", "out")
    assert ran.code == 0, ran.err
    assert re.search(
        r"^verdict +verified against \w+, a second engine on \d samples$", ran.out, re.M
    ), ran.out


def test_engine_must_run_even_without_a_reference(
    cli: Run, unknown_to_the_evaluator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "onnxruntime,broken")
    words = ("deploy", "gelu.onnx", "--backend", "onnxruntime", "--work-dir", "out")
    ran = cli(*words)
    assert ran.code == 1
    reason = "unverified: no reference: onnx's reference evaluator cannot run 'gelu.onnx'"
    assert f"error: {reason}" in ran.err
    ran = cli(*words, "--allow-unverified")
    assert ran.code == 0, ran.err
    assert f"\nverdict   {reason}" in ran.out
    assert "\nengine    onnxruntime " in ran.out, "the engine ran without a reference"
    commands = [line.strip() for line in ran.out.partition("\nNext:\n")[2].splitlines()]
    assert commands == ["enginebay run out", "enginebay inspect out"]
    for command in commands:
        assert cli(*command.split()[1:]).code == 0
    assert cli("verify", "out").code == 2
    with derived("broken", "def change(outputs): raise ValueError('no kernel')\n"):
        monkeypatch.setenv("ENGINEBAY_BACKENDS", "broken")
        ran = cli("deploy", "gelu.onnx", "--backend", "broken", "--work-dir", "other")
    assert ran.code == 1
    assert "no kernel" in ran.err


# ── artifacts after the deployment ──────────────────────────────────────────────────────────────

LOAD = """\
import json, sys
sys.modules["torch"] = None
sys.modules["onnx"] = None
import numpy as np
import enginebay as eb
with eb.load(sys.argv[1]) as wrapper:
    found = wrapper({"x": np.ones((2, 4), np.float32)})
print(json.dumps(found["output"].tolist()))
"""


def test_moved_artifact_runs_without_torch_and_onnx(net: nn.Module, tmp_path: Path) -> None:
    deployment = eb.deploy(
        net, torch.randn(2, 4), backend="onnxruntime", work_dir=tmp_path / "a" / "out"
    )
    moved = tmp_path / "b" / "größer, mit Leerzeichen"
    shutil.copytree(deployment.artifact.path, moved)
    shutil.rmtree(tmp_path / "a")
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(moved)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = net(torch.ones(2, 4)).tolist()
    np.testing.assert_allclose(json.loads(done.stdout), expected, rtol=1e-4, atol=1e-5)
    assert eb.verify(moved).passed
    assert eb.verify(moved, reference=net).passed


def test_the_command_in_the_manifest_makes_the_same_engine_files(
    shell: Run, cli: Run, here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert MODELS  # written by the fixture ``here``
    assert shell("deploy", "models.py:build", "--exporter", "torchscript").code == 0
    manifest = cli("inspect", "models-build-onnxruntime", "--json").document["manifest"]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    tool = f"{sys.executable} -m enginebay "
    subprocess.run(
        [
            "/bin/sh",
            "-c",
            f"{manifest['command']} --work-dir {elsewhere}/again".replace("enginebay ", tool),
        ],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
    )
    again = cli("inspect", elsewhere / "again", "--json").document["manifest"]

    def digest(found: dict[str, Any]) -> str:
        return next(str(e["sha256"]) for e in found["files"] if e["path"] == "model.onnx")

    assert digest(again) == digest(manifest)


class Keywords(nn.Module):
    """A module whose exported program requires a positional and a keyword argument."""

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return x * scale


def test_a_pt2_with_keywords_takes_inputs_by_name(cli: Run, here: Path) -> None:
    program = torch.export.export(Keywords(), (torch.ones(2, 4),), {"scale": torch.ones(4)})
    torch.export.save(program, here / "kw.pt2")
    ran = cli(
        *("deploy", "kw.pt2", "--input", "x=2x4", "--input", "scale=4", "--work-dir", "out"),
        *("--backend", "onnxruntime", "--json"),
    )
    assert ran.code == 0, ran.err
    assert [spec["name"] for spec in ran.document["manifest"]["inputs"]] == ["x", "scale"]


class Named:
    """A path as from ``os.scandir``: neither a string nor a pathlib path."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return self.path


def test_every_kind_of_path_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text('[backend_config]\ntype = "onnxruntime"\n')
    model, x = nn.Linear(4, 2).eval(), torch.randn(2, 4)
    np.savez("data.npz", input=np.random.default_rng(0).normal(size=(4, 2, 4)).astype(np.float32))
    eb.export(model, x, path=Named("net.onnx"))
    given = {"config": Named("config.toml"), "data": Named("data.npz"), "work_dir": Named("out")}
    made = eb.deploy(Named("net.onnx"), **given)
    assert made.verdict == "verified"
    record = made.artifact.manifest.data
    assert record is not None
    assert record.source == "data.npz"
    eb.load(Named("out")).close()
    assert eb.verify(Named("out"), Named("data.npz"), Named("net.onnx")).verdict == "verified"
    assert lab.benchmark(Named("out"), duration=0.1)
