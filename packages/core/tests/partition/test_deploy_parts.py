"""One artifact with several engines: deployed, moved, loaded, verified like any other."""

from __future__ import annotations

import json
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
from enginebay.cli import main
from enginebay.errors import ArtifactError, NotVerifiedError, ParamsError, UsageError
from enginebay.partition import ChainedWrapper

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.usefixtures("loopback"),
    pytest.mark.filterwarnings("ignore:.*classes occur in no sample:enginebay.VerdictWarning"),
]

OPEN = {"x": {0: ("batch", 1, 5)}, "ids": {0: "batch"}}


class Network(nn.Module):
    """Two inputs, two cuts, a skip connection over both, outputs of the first and last part."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> dict[str, Any]:
        early = x.relu()
        neck = eb.mark(self.first(early), "neck")
        head = eb.mark(self.second(neck.sigmoid()), "head")
        return {"late": tail(head, early), "next": ids + 1, "last": ids * 2 + head.argmax(1)}


def tail(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.exp() + y


def example(batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 4), torch.arange(batch)


def deploy(
    model: nn.Module, folder: Path, *cuts: str, dynamic: Any = OPEN, export: Any = None, **more: Any
) -> eb.Deployment:
    return eb.deploy(
        model,
        example(),
        backend="loopback",
        work_dir=folder,
        dynamic=dynamic,
        export={"cuts": cuts, **(export or {})},
        **more,
    )


@pytest.fixture(scope="module", params=["dynamo", "torchscript"])
def deployed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Network, eb.Deployment]:
    model = Network()
    folder = tmp_path_factory.mktemp("partition") / "net"
    return model, deploy(model, folder, "neck", "head", export={"exporter": request.param})


def test_partitioned_artifact_is_verified_as_a_whole(
    deployed: tuple[Network, eb.Deployment],
) -> None:
    verification = deployed[1].verification
    assert (verification.verdict, verification.samples) == ("verified", 25)
    assert [output.name for output in verification.outputs] == ["late", "next", "last"]


def test_the_manifest_lists_the_parts(deployed: tuple[Network, eb.Deployment]) -> None:
    manifest = deployed[1].artifact.manifest
    assert manifest.model_files == tuple(f"part_{n}/model.onnx" for n in range(3))
    assert [part.folder for part in manifest.parts] == ["part_0", "part_1", "part_2"]
    assert [spec.name for spec in manifest.parts[1].inputs] == ["neck"]
    assert [spec.name for spec in manifest.parts[1].outputs] == ["head"]
    assert [spec.name for spec in manifest.inputs] == ["x", "ids"]
    read = eb.open_artifact(deployed[1].artifact.path).manifest
    assert read.parts == manifest.parts


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("numpy", [True, False])
def test_moved_partitioned_artifact_returns_the_models_outputs(
    deployed: tuple[Network, eb.Deployment], tmp_path: Path, batch: int, numpy: bool
) -> None:
    model, deployment = deployed
    moved = tmp_path / "elsewhere" / "net"
    shutil.copytree(deployment.artifact.path, moved)
    x, ids = example(batch)
    feed = {"x": x.numpy(), "ids": ids.numpy()} if numpy else {"x": x, "ids": ids}
    with eb.load(moved) as wrapper:
        assert isinstance(wrapper, ChainedWrapper)
        outputs = wrapper(feed)
        again = wrapper(feed)
    assert list(outputs) == ["late", "next", "last"]
    for name, expected in model(x, ids).items():
        assert isinstance(outputs[name], np.ndarray if numpy else torch.Tensor)
        torch.testing.assert_close(torch.as_tensor(outputs[name]), expected)
        assert np.array_equal(outputs[name], again[name])


def test_partitioned_artifact_verifies_from_recorded_outputs(
    deployed: tuple[Network, eb.Deployment],
) -> None:
    assert eb.verify(deployed[1].artifact).verdict == "verified"


def test_partitioned_artifact_runs_without_torch(deployed: tuple[Network, eb.Deployment]) -> None:
    code = (
        "import sys, json, numpy as np, enginebay as eb\n"
        "sys.modules['torch'] = None\n"  # any import of torch fails
        "sys.path[:0] = json.loads(sys.argv[2])\n"
        "with eb.load(sys.argv[1]) as wrapper:\n"
        "    y = wrapper({'x': np.ones((1, 4), np.float32), 'ids': np.zeros(1, np.int64)})\n"
        "print(json.dumps(y['next'].tolist()))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(deployed[1].artifact.path), json.dumps(sys.path)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(run.stdout) == [1]


def test_marked_functions_are_cut_without_touching_the_model(tmp_path: Path) -> None:
    model = Network()
    sets = [eb.marks({f"{__name__}.tail": "tail"})]
    deployment = deploy(model, tmp_path / "net", "tail", export={"rewriters": sets})
    assert deployment.verdict == "verified"
    _, last = deployment.artifact.manifest.parts
    assert {"tail:input_0", "tail:input_1"} <= {spec.name for spec in last.inputs}


def test_without_cuts_marks_change_nothing(tmp_path: Path) -> None:
    deployment = deploy(Network(), tmp_path / "net", export={"keep_ir": True})
    assert deployment.verdict == "verified"
    assert deployment.artifact.manifest.parts == ()
    assert "parts" not in json.loads((tmp_path / "net" / "manifest.json").read_text())
    graph = onnx.load(tmp_path / "net" / "ir" / "model.onnx").graph
    assert "Mark" not in [node.op_type for node in graph.node]
    with eb.load(deployment.artifact) as wrapper:
        assert not isinstance(wrapper, ChainedWrapper)


def test_a_wrong_part_is_a_mismatch(tmp_path: Path) -> None:
    with pytest.raises(NotVerifiedError):
        deploy(Network(), tmp_path / "net", "neck", params={"gain": 1.5})
    assert not (tmp_path / "net").exists()


def test_shape_params_are_passed_to_the_part_with_the_input(tmp_path: Path) -> None:
    shapes = {"min_shapes": {"x": (1, 4)}, "max_shapes": {"x": (5, 4)}}
    params = {"input_shapes": {"x": (2, 4)}, **shapes}
    model = nn.Sequential(nn.Linear(4, 3), Marks(), nn.ReLU())
    deployment = eb.deploy(
        model,
        torch.randn(2, 4),
        backend="loopback",
        work_dir=tmp_path / "net",
        params=params,
        export=eb.ExportOptions(input_names=["x"], cuts=["cut"]),
    )
    assert deployment.artifact.manifest.params["max_shapes"]["x"] is not None
    with eb.load(deployment.artifact) as wrapper:
        assert wrapper({"x": torch.ones(4, 4)})["output"].shape == (4, 3)


class Marks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return eb.mark(x, "cut")


@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        (["neckk"], "the graph cannot be cut at 'neckk': its marks are neck, head"),
        (
            ["head", "neck"],
            (
                "the graph cannot be cut at 'head': this tensor depends on another tensor of the "
                "same cut"
            ),
        ),
    ],
)
def test_invalid_cuts_are_refused_and_leave_no_files(
    tmp_path: Path, cuts: list[str], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        deploy(Network(), tmp_path / "net", *cuts)
    assert str(caught.value).startswith(message)
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            "torch.nn.Linear.forwards",
            (
                '"torch.nn.Linear.forwards" was not found: "torch.nn.Linear" has no "forwards" '
                '(did you mean "forward"?)'
            ),
        ),
        (
            "no_such_package.f",
            (
                "the graph cannot be cut at 'first': its marks are neck, head; "
                '"no_such_package.f" was not found: no module "no_such_package" is loaded'
            ),
        ),
    ],
)
def test_cut_at_a_missing_function_is_refused(tmp_path: Path, function: str, message: str) -> None:
    with pytest.raises(eb.EnginebayError) as caught:
        eb.deploy(
            Network(),
            example(),
            backend="loopback",
            work_dir=tmp_path / "net",
            export=eb.ExportOptions(rewriters=[eb.marks({function: "first"})], cuts=["first"]),
        )
    assert str(caught.value) == message


def test_string_as_cuts_is_refused() -> None:
    with pytest.raises(ParamsError) as caught:
        eb.ExportOptions(cuts="neck")
    assert str(caught.value).startswith("'neck' does not fit ExportOptions.cuts: expected ")


def test_only_onnx_can_be_cut(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        deploy(Network(), tmp_path / "net", "neck", export={"ir": "torchscript"})
    assert str(caught.value) == (
        "only an ONNX graph can be cut, but the IR of this deployment is torchscript"
    )
    assert caught.value.hint is not None


def test_a_part_whose_file_has_no_digest_is_refused(tmp_path: Path) -> None:
    deploy(Network(), tmp_path / "net", "neck")
    manifest = tmp_path / "net" / "manifest.json"
    document = json.loads(manifest.read_text())
    document["parts"][1]["folder"] = "../elsewhere"
    manifest.write_text(json.dumps(document))
    with pytest.raises(ArtifactError, match=r'the model file "\.\./elsewhere/model\.onnx" without'):
        eb.load(tmp_path / "net")


def test_closed_chain_refuses_calls(deployed: tuple[Network, eb.Deployment]) -> None:
    wrapper = eb.load(deployed[1].artifact)
    wrapper.close()
    with pytest.raises(UsageError, match="this wrapper is closed"):
        wrapper({"x": np.ones((1, 4), np.float32), "ids": np.zeros(1, np.int64)})


def test_cuts_option_of_deploy_creates_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(
        "import torch, enginebay as eb\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return eb.mark(eb.mark(x.relu(), 'a').exp(), 'b') + 1\n"
        "def build():\n"
        "    return Net(), (torch.ones(1, 3),)\n"
    )
    command = ["deploy", "net.py:build", "--backend", "loopback", "--work-dir", "out"]
    assert main([*command, "--cuts", "a", "--cuts", "b"]) == 0
    assert main(["inspect", "out"]) == 0
    assert "part_1: a → b" in capsys.readouterr().out
    artifact = eb.open_artifact(tmp_path / "out")
    assert artifact.verdict == "verified"
    assert "--cuts a --cuts b" in artifact.manifest.command


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    text = "(float[n, 3] x) => (float[n, 3] y) { a = Relu(x) b = Exp(a) y = Add(b, a) }"
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> net {text}'), path)
    return path


def test_an_onnx_file_is_cut_at_its_tensors(
    onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["deploy", str(onnx_file), "--backend", "loopback", "--input", "x=2x3"]
    assert main([*command, "--work-dir", str(tmp_path / "out"), "--cuts", "a", "--cuts", "b"]) == 0
    artifact = eb.open_artifact(tmp_path / "out")
    verification = artifact.manifest.verification
    assert verification is not None
    # Against the whole file, at other values and sizes too.
    assert (verification.verdict, verification.samples) == ("verified", 6)
    assert [part.folder for part in artifact.manifest.parts] == ["part_0", "part_1", "part_2"]
    with eb.load(artifact) as wrapper:
        output = wrapper({"x": np.ones((4, 3), np.float32)})["y"]
    np.testing.assert_allclose(output, np.full((4, 3), np.e + 1), rtol=1e-6)
    capsys.readouterr()
    assert main([*command, "--work-dir", str(tmp_path / "wrong"), "--cuts", "aa"]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "error: the graph cannot be cut at 'aa': no such tensor",
        "hint: did you mean 'a'?",
    ]
    assert not (tmp_path / "wrong").exists()


def test_a_wrong_part_of_a_file_is_a_mismatch(onnx_file: Path, tmp_path: Path) -> None:
    with pytest.raises(NotVerifiedError):
        eb.deploy(
            onnx_file,
            {"x": np.ones((2, 3), np.float32)},
            backend="loopback",
            work_dir=tmp_path / "out",
            params={"gain": 1.5},
            export=eb.ExportOptions(cuts=["a"]),
        )


class Detector(nn.Module):
    """A network with the marks that MMDeploy's rewriters put into detectors."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head = nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        feature = extract_feat(self.backbone, x)
        scores = eb.mark(self.head(feature).softmax(1), "multiclass_nms:input")
        return {"scores": scores * 2, "mean": feature.mean(1)}


def extract_feat(backbone: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return backbone(x).relu()  # type: ignore[no-any-return]  # a module returns anything


FORWARD, FEATURE = "detector_forward", "extract_feat"
FUNCTIONS = {f"{__name__}.Detector.forward": FORWARD, f"{__name__}.extract_feat": FEATURE}


def deploy_parts(folder: Path, *parts: dict[str, Any]) -> eb.Deployment:
    section = {"type": "two_stage", "apply_marks": True, "partition_cfg": list(parts)}
    return eb.deploy(
        Detector(),
        torch.randn(2, 4),
        backend="loopback",
        work_dir=folder,
        config={"partition_config": section},
        export=eb.ExportOptions(rewriters=[eb.marks(FUNCTIONS)], exporter="torchscript"),
    )


@pytest.mark.parametrize(
    ("ends", "crossing"),
    [
        ([[f"{FEATURE}:output"]], [{"extract_feat:output_0"}]),
        # Both places are on the same path: the part ends at the later place.
        ([[f"{FEATURE}:output", "multiclass_nms[0]:input"]], [{"multiclass_nms:input"}]),
        (
            [[f"{FEATURE}:output"], ["multiclass_nms:input"]],
            [{"extract_feat:output_0"}, {"multiclass_nms:input"}],
        ),
        ([[f"{FORWARD}:output"]], []),
    ],
    ids=["one part", "two ends", "two parts", "the whole"],
)
def test_partition_config_of_mmdeploy_creates_its_parts(
    tmp_path: Path, ends: list[list[str]], crossing: list[set[str]]
) -> None:
    starts = [[f"{FORWARD}:input"], *ends]
    given = [{"start": s, "end": e, "save_file": "a.onnx"} for s, e in zip(starts, ends)]  # noqa: B905  # the last end starts no part
    deployed = deploy_parts(tmp_path / "net", *given)
    assert deployed.verdict == "verified"
    parts = deployed.artifact.manifest.parts
    assert len(parts) == len(crossing) + 1
    assert [{spec.name for spec in part.inputs} for part in parts[1:]] == crossing
    assert any("the artifact contains every part" in note for note in deployed.notes)


PART = "partition_config.partition_cfg.0"


@pytest.mark.parametrize(
    ("start", "end", "message", "hint"),
    [
        (
            "detector_forward:input",
            "extract_fet:output",
            f"'extract_fet:output' ({PART}.end): its marks are detector_forward:input_0, ",
            "did you mean 'extract_feat:output'?",
        ),
        (
            "multiclass_nms:input",
            "extract_feat:output",
            (
                f"'multiclass_nms:input' ({PART}.start): this tensor depends on another tensor of "
                "the same cut"
            ),
            "list the cuts in the order of the model, and use each mark's name once",
        ),
    ],
    ids=["misspelt", "the wrong way round"],
)
def test_invalid_part_in_partition_config_is_refused(
    tmp_path: Path, start: str, end: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as raised:
        deploy_parts(tmp_path / "net", {"start": start, "end": end})
    assert str(raised.value).startswith(f"the graph cannot be cut at {message}")
    assert raised.value.hint == hint
    assert not (tmp_path / "net").exists()
