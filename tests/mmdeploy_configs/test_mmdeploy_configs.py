"""The list, the results and their page are consistent; no codebase and no checkout are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import enginebay as eb

from .configs import CASES, LIST, check_checkout, codebase_of
from .page import PAGE, load_all, render
from .trial import differences

MODELS = Path(__file__).parent / "models"


def test_page_in_the_docs_matches_the_results() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(load_all()), "mmdeploy_configs --record"


def test_the_list_has_every_config_with_a_model_or_a_cause() -> None:
    assert len(CASES) == 82
    assert [name for name, case in CASES.items() if bool(case.model) == bool(case.cause)] == []
    assert list(CASES) == sorted(CASES), f"sort {LIST.name}"


def test_results_are_of_configs_with_a_model() -> None:
    for codebase, results in load_all().items():
        for config in results.rows:
            assert codebase_of(config) == codebase
            assert CASES[config].model


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is no checkout of MMDeploy at 3f8604bd72:\ngit clone "):
        check_checkout(tmp_path)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> eb.Artifact:
    """A convolution in single precision with a dynamic batch, from a config like MMDeploy's."""
    torch.manual_seed(0)
    model = nn.Conv2d(3, 2, 3)
    options = eb.ExportOptions(input_names=("input",), output_names=("output",), opset=11)
    folder = tmp_path_factory.mktemp("mmdeploy") / "out"
    return eb.deploy(
        (model, torch.randn(1, 3, 8, 8)),
        backend="onnxruntime",
        dynamic={"input": {0: "batch"}},
        export=options,
        params={"file_name": "end2end"},
        work_dir=folder,
    ).artifact


def config(**onnx: Any) -> dict[str, Any]:
    return {
        "backend_config": {"type": "onnxruntime"},
        "codebase_config": {"type": "mmseg"},
        "onnx_config": {
            "opset_version": 11,
            "save_file": "end2end.onnx",
            "input_names": ["input"],
            "output_names": ["output"],
            "dynamic_axes": {"input": {"0": "batch"}, "output": {"0": "batch", "2": "height"}},
            "input_shape": [8, 8],
            **onnx,
        },
    }


def test_an_artifact_that_is_as_the_config_asks_has_no_differences(artifact: eb.Artifact) -> None:
    assert list(differences(artifact, config())) == []


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"opset_version": 12}, "the operator set is 11, and 12 is asked for"),
        ({"input_shape": [8, 9]}, "the example's input is [1, 3, 8, 8], and [1, 3, 9, 8] is asked"),
        ({"dynamic_axes": {}}, "dynamic axes of input are {0}, none asked"),
        ({"output_names": ["dets"]}, "the names are ['output'], and ['dets'] are asked for"),
        ({"save_file": "net.onnx"}, "the file is end2end.onnx, and net is asked for"),
    ],
)
def test_each_difference_is_found(
    artifact: eb.Artifact, changed: dict[str, Any], found: str
) -> None:
    assert found in "\n".join(differences(artifact, config(**changed)))


def test_another_precision_or_an_uncut_model_is_found(artifact: eb.Artifact) -> None:
    asked = config() | {"partition_config": {"partition_cfg": []}}
    asked["backend_config"] |= {"precision": "FP16"}
    assert list(differences(artifact, asked)) == [
        "the precision is fp32, and fp16 is asked for",
        "the model is whole, and parts are asked for",
    ]
