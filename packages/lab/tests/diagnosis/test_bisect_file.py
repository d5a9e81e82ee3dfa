"""The wrong node of an artifact that was deployed from an ONNX file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from packages.lab.tests.diagnosis.models import short
from packages.lab.tests.diagnosis.onnx_files import X, node, save_graph

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import UsageError
from enginebay_testing import temporary_backend
from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import onnx

pytestmark = pytest.mark.usefixtures("loopback")


def test_the_wrong_node_of_an_onnx_file_is_found(tmp_path: Path) -> None:
    model, x = short()
    path = eb.export(
        model, x, path=tmp_path / "net.onnx", options=eb.ExportOptions(exporter="torchscript")
    ).path
    artifact = eb.deploy(
        *(path, {"input": x.numpy()}),
        backend="loopback",
        work_dir=tmp_path / "net",
        params={"gain": 1.5},
        verify=eb.VerifyOptions(allow_mismatch=True, probes=0),
    ).artifact
    found = lab.bisect(artifact)
    assert (found.node, found.module, found.step) == (
        *("/model/model.0/Gemm", "0"),
        "engine",
    )


def save(path: Path, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str] = ("y",)) -> Path:
    save_graph(path, nodes, outputs)
    return path


def deploy_file(path: Path, source: str = "loopback", **params: Any) -> eb.Artifact:
    return eb.deploy(
        *(path, {"x": X}),
        backend=source,
        work_dir=path.parent / "net",
        params=params,
        verify=eb.VerifyOptions(allow_mismatch=True, probes=0),
    ).artifact


#: The loopback backend, whose Sin is wrong.
ASTRAY = """
import enginebay as eb
import msgspec
import onnx
from enginebay_testing import loopback

unsupported_operators = loopback.unsupported_operators
check_env = loopback.check_env
build_wrapper = loopback.build_wrapper

@eb.hookimpl
def backend_info():
    return msgspec.structs.replace(loopback.backend_info(), name="astray")

@eb.hookimpl
def to_backend(request):
    model = onnx.load(request.ir.path)
    for node in model.graph.node:
        node.op_type = "Cos" if node.op_type == "Sin" else node.op_type
    path = request.work_dir / "model.onnx"
    onnx.save(model, path)
    return [path]
"""


def test_the_wrong_operator_is_found_on_its_branch(tmp_path: Path) -> None:
    nodes = [
        node("Neg", "x", "a"),
        node("Sin", "a", "left", name=""),
        node("Tanh", "x", "right"),
        node("Exp", "right", "far"),
        node("Add", "left far", "y"),
    ]
    path = save(tmp_path / "net.onnx", nodes, ("y", "right"))
    with temporary_backend("astray", ASTRAY):
        found = lab.bisect(deploy_file(path, "astray"))
    assert (found.node, found.operator, found.tensor) == ("left", "Sin", "left")
    assert (found.together, found.step, found.module) == ((), "engine", "")
    assert found.reason.startswith(
        "astray differs from onnx's reference evaluator at the model's own code, node 'left' "
        "(Sin): off by "
    )
    assert found.reference == "onnx's reference evaluator"


def test_a_file_that_differs_from_its_reference(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * torch.sin(x)

    path = save(tmp_path / "net.onnx", [node("Sin", "x", "y")])
    verify = eb.VerifyOptions(allow_mismatch=True, probes=0, reference=Twice())
    artifact = eb.deploy(
        path, {"x": X}, backend="loopback", work_dir=tmp_path / "net", verify=verify
    ).artifact
    capfd.readouterr()
    ran = call_command(capfd, "bisect", str(artifact.path), "--json")
    assert ran.code == 1
    document = json.loads(ran.out)
    assert (document["found"], document["step"], document["node"]) == (False, "export", "")
    assert document["reason"] == (
        "loopback computes the file rightly, but the file differs from the model that the artifact "
        "was verified against: was it exported from other weights, or from another model?"
    )


def test_a_file_that_the_engine_computes_rightly(tmp_path: Path) -> None:
    path = save(tmp_path / "net.onnx", [node("Sin", "x", "y")])
    artifact = deploy_file(path)
    found = lab.bisect(artifact)
    assert (found.found, found.engines, found.step) == (False, 1, "none")
    assert found.reason == "loopback has no wrong output on this sample: nothing to bisect"
    with pytest.raises(UsageError) as raised:
        lab.bisect(artifact, against=artifact)
    assert str(raised.value) == (
        "the artifact was deployed from an ONNX file, so it can only be compared with onnx's "
        "reference evaluator"
    )
    assert raised.value.hint == "omit --against"


def test_the_search_follows_the_worst_output(tmp_path: Path) -> None:
    nodes = [node("Cos", "x", "fine"), node("Sin", "x", "a"), node("Exp", "a", "y")]
    path = save(tmp_path / "net.onnx", nodes, ("fine", "y", "a"))
    with temporary_backend("astray", ASTRAY):
        found = lab.bisect(deploy_file(path, "astray"))
    assert found.node == "n_a"
    assert found.accumulated is not None
    assert found.accumulated > 0.1
    assert list(found.places) == []  # there are no modules


def test_a_file_without_recorded_inputs_needs_some(tmp_path: Path) -> None:
    path = save(tmp_path / "net.onnx", [node("Sin", "x", "y")])
    made = eb.convert(path, backend="loopback", work_dir=tmp_path / "made", params={"gain": 2.0})
    with pytest.raises(UsageError) as raised:
        lab.bisect(made, path)
    assert str(raised.value) == "the artifact has no recorded inputs"
    assert raised.value.hint == "add --input NAME=SPEC"
    found = lab.bisect(made, path, {"x": X})
    assert (found.node, found.sample) == ("n_y", "example")
