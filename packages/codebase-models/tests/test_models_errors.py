"""Errors of models by name, as the user reads them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

import enginebay as eb
from enginebay.environment import install_command
from enginebay.hooks import ModelRequest
from enginebay_models.plugin import model_sources

if TYPE_CHECKING:
    from pathlib import Path


def fault(model: str, **section: Any) -> tuple[str, str | None]:
    scheme, _, name = model.partition(":")
    with pytest.raises(eb.EnginebayError) as caught:
        model_sources()[scheme](ModelRequest(name=name, codebase_config=section))
    return str(caught.value), caught.value.hint


@pytest.mark.parametrize(
    ("model", "near"),
    [
        ("timm:resnet1", "resnet18"),
        ("torchvision:resnet19", "resnet18"),
        ("transformers:resnte", "resnet"),
        ("transformers:ResNetModell", "ResNetModel"),
        ("transformers:AutoTokenizer", "AutoTokenizer"),
    ],
)
def test_an_unknown_model_shows_the_nearest(model: str, near: str) -> None:
    scheme, _, name = model.partition(":")
    message, hint = fault(model)
    assert message == f"{scheme} has no model '{name}'"
    assert hint is not None
    assert near in hint.removeprefix("similar names: ").split(", ") or name == near


def test_an_unknown_model_without_similar_names_has_no_hint() -> None:
    assert fault("timm:§§§§") == ("timm has no model '§§§§'", None)


@pytest.mark.parametrize("scheme", ["timm", "torchvision", "transformers"])
def test_a_missing_library_is_reported(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, scheme, None)
    assert fault(f"{scheme}:resnet18") == (
        f"a model '{scheme}:NAME' requires {scheme}, which is not installed",
        install_command(f"enginebay-models[{scheme}]"),
    )


def test_a_library_that_cannot_be_imported_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms is missing')")
    for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    message, hint = fault("timm:resnet18")
    assert message.endswith(
        "cannot be imported: RuntimeError: operator torchvision::nms is missing"
    )
    builds = "with matching builds of torch and torchvision"
    assert hint == f"{install_command('enginebay-models[timm]')}, {builds}"


def test_nothing_is_downloaded_without_a_request() -> None:
    message, hint = fault("transformers:google/vit-base-patch16-224")
    assert message == (
        "'google/vit-base-patch16-224' is neither a local folder with a config.json nor an "
        "architecture; the model of this name on the Hugging Face Hub is downloaded only on request"
    )
    assert hint == "--pretrained, or transformers:google/vit-base-patch16-224?pretrained"
    message, hint = fault("timm:hf-hub:timm/resnet18.a1_in1k")
    assert message == "timm has no model 'hf-hub:timm/resnet18.a1_in1k'"


def test_pretrained_weights_of_an_architecture_are_refused() -> None:
    assert fault("transformers:resnet", pretrained=True) == (
        "'transformers:resnet' is an architecture without weights",
        "use a model of the Hugging Face Hub: transformers:OWNER/NAME",
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("raft_small", "takes two images"),
        ("maskrcnn_resnet50_fpn", "finds masks in addition to boxes"),
        ("keypointrcnn_resnet50_fpn", "finds keypoints in addition to boxes"),
    ],
)
def test_models_with_unsupported_inputs_or_outputs_are_refused(name: str, why: str) -> None:
    message, hint = fault(f"torchvision:{name}")
    assert message == f"'torchvision:{name}' cannot be deployed by name, since the model {why}"
    assert hint == "write a function that returns (model, inputs): file.py:attr"


def test_an_unknown_model_type_is_refused() -> None:
    name = "torchvision:ssdlite320_mobilenet_v3_large"
    assert fault(name, type="torchvision", model_type="end2edn") == (
        (
            "codebase_config.model_type: 'end2edn' is not a model_type of torchvision; "
            "available: end2end"
        ),
        "did you mean 'end2end'?",
    )
    message, _ = fault("torchvision:squeezenet1_1", model_type="end2end")
    assert message.startswith("codebase_config: unknown key 'model_type'")


@pytest.mark.parametrize(
    ("section", "wanted", "hint"),
    [
        (
            {"pretraind": True},
            (
                "codebase_config: unknown key 'pretraind'; available: type, task, arguments, "
                "pretrained, checkpoint"
            ),
            "did you mean 'pretrained'?",
        ),
        (
            {"pretrained": "yes"},
            "codebase_config: Expected `bool`, got `str` - at `$.pretrained`",
            None,
        ),
        (
            {"pretrained": True, "checkpoint": "a.pth"},
            "codebase_config: 'pretrained' and 'checkpoint' cannot be combined",
            "leave one of them out",
        ),
        ({"checkpoint": "a.pth"}, "no weights file 'a.pth'", "pass --weights FILE"),
    ],
)
def test_a_wrong_section_is_refused(section: dict[str, Any], wanted: str, hint: str | None) -> None:
    assert fault("timm:resnet10t", **section) == (wanted, hint)


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    torch.save({"other": torch.ones(1)}, tmp_path / "other.pth")
    message, hint = fault("timm:resnet10t", checkpoint=str(tmp_path / "other.pth"))
    assert message.startswith(f"'{tmp_path}/other.pth' does not fit ResNet: ")
    assert hint == "pass weights with exactly the tensors of this model"


def test_files_that_are_not_weights_are_refused(tmp_path: Path) -> None:
    for name, text in (("a.pth", b"text"), ("a.safetensors", b"text")):
        (tmp_path / name).write_bytes(text)
        message, _ = fault("timm:resnet10t", checkpoint=str(tmp_path / name))
        assert message.startswith(f"'{tmp_path}/{name}' cannot be read as weights: ")
    torch.save([1, 2], tmp_path / "list.pth")
    message, _ = fault("timm:resnet10t", checkpoint=str(tmp_path / "list.pth"))
    assert message == f"'{tmp_path}/list.pth' contains a list, expected a state_dict"


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (print, ("run",))

    torch.save({"state_dict": Evil()}, tmp_path / "evil.pth")
    message, _ = fault("timm:resnet10t", checkpoint=str(tmp_path / "evil.pth"))
    assert "cannot be read as weights" in message


def test_an_unknown_argument_of_a_model_is_refused(tmp_path: Path) -> None:
    config = {
        "backend_config": {"type": "onnxruntime"},
        "codebase_config": {"type": "torchvision", "arguments": {"deep": True}},
    }
    with pytest.raises(eb.EnginebayError) as caught:
        eb.deploy("squeezenet1_1", config=config, work_dir=tmp_path / "out")
    assert str(caught.value).startswith(
        "calling 'torchvision:squeezenet1_1' raised TypeError: SqueezeNet.__init__() got"
    )
