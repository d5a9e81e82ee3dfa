"""Models of mmocr as they are deployed, without an engine, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import mmocr
import pytest
import torch
from mmocr.structures import TextRecogDataSample

import enginebay as eb
from enginebay.authors.sources import read_task

from .conftest import DETECTORS, RECOGNISERS

if TYPE_CHECKING:
    from collections.abc import Callable

#: The configs in mmocr's wheel.
CONFIGS = Path(mmocr.__path__[0]) / ".mim" / "configs"
DBNET, CRNN = "dbnet_resnet18_fpnc_1200e_icdar2015", "crnn_mini-vgg_5e_mj"
SAR = "sar_resnet31_parallel-decoder_5e_toy"


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_returns_the_maps_of_its_head(build: Callable[..., Any], name: str) -> None:
    model, image, task = build(name)
    assert task is None
    network = model.network
    with torch.no_grad():
        maps = model(image)
        assert torch.equal(maps, network.det_head(network.extract_feat(image), None))
        assert (maps - model(torch.randn_like(image))).std() > 0.01 * maps.std()
    if name == DBNET:
        assert maps.shape == (1, 64, 64)
        assert 0 <= maps.min() < 0.1 < 0.9 < maps.max() <= 1


# Of mmcv and torch, for ABINet.
@pytest.mark.filterwarnings("ignore:Use same attn_mask:UserWarning")
@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask:UserWarning")
@pytest.mark.parametrize("name", [*RECOGNISERS, "nrtr_modality-transform_6e_toy"])
def test_the_texts_are_those_of_mmocr(build: Callable[..., Any], name: str) -> None:
    model, image, task = build(name)
    images = torch.cat([image, torch.randn_like(image)])
    records = [TextRecogDataSample(metainfo={"valid_ratio": 1.0}) for _ in images]
    with torch.no_grad():
        outputs = model(images)
        wanted = [sample.pred_text.item for sample in model.network.predict(images, records)]
    assert not torch.equal(outputs[0], outputs[1])  # random weights tell images apart
    reader = read_task({**task, "output": "output"})
    found = [reader.postprocess({"output": output[None].numpy()})[0].text for output in outputs]
    assert found == wanted
    assert any(found)


def test_the_task_prepares_images_like_mmocr(build: Callable[..., Any]) -> None:
    image = read_task(build(CRNN)[2]).image
    assert (image.channels, image.scale, image.mean, image.std) == ("L", 1, (127,), (127,))
    (step,) = image.steps
    assert (step.height, step.width, step.fit) == (32, 100, "fill")
    image = read_task(build(SAR)[2]).image
    assert image.channels == "BGR"
    assert [step.width for step in image.steps] == [160, 160]
    assert (image.steps[0].fit, image.steps[1].at) == ("contain", "corner")


def fault(build: Callable[..., Any], name: str, *size: int, **section: Any) -> tuple[str, Any]:
    with pytest.raises(eb.EnginebayError) as caught:
        build(name, size, **section)
    return str(caught.value), caught.value.hint


WANTED = (
    "expected a text detector or recogniser of mmocr: model = dict(type='DBNet', …) or "
    "model = dict(type='CRNN', …)"
)


def test_unknown_names_and_published_weights_are_refused(build: Callable[..., Any]) -> None:
    message, hint = fault(build, "crnn_mini-vgg")
    assert message == "mmocr 1.0.1 has no model 'crnn_mini-vgg'"
    assert hint == "similar names: crnn_mini-vgg_5e_mj, crnn_mini-vgg_5e_toy"
    message, hint = fault(build, CRNN, pretrained=True)
    assert message == "mmocr's published weights are not downloaded automatically"
    assert hint.endswith("--weights FILE")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sdmgr_novisual_60e_wildreceipt", "'{}' is of type 'SDMGR', not a"),
        ("mask-rcnn_resnet50_fpn_160e_icdar2015", "'{}' is of type 'MMDetWrapper', not a"),
    ],
)
def test_models_of_another_kind_are_refused(
    build: Callable[..., Any], name: str, message: str
) -> None:
    wanted = f"{message.format(name)} text detector or recogniser"
    assert fault(build, name) == (wanted, WANTED)


def test_the_other_task_is_refused(build: Callable[..., Any]) -> None:
    message, hint = fault(build, CRNN, task="TextDetection")
    assert message == (
        f"codebase_config.task: '{CRNN}' is not for TextDetection, but for TextRecognition"
    )
    assert hint == "set task='TextRecognition', or remove task"


def test_a_config_of_which_the_library_lacks_a_part_is_refused(
    build: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.py").write_text(
        "model = dict(type='CRNN', backbone=dict(type='GoneNet'), decoder=dict(type='Gone'))"
    )
    message, _ = fault(build, "old.py")
    assert message.startswith("'old.py' cannot be built: KeyError: ")
    assert "GoneNet" in message
    message, _ = fault(build, "dbnetpp_resnet50-dcnv2_fpnc_1200e_icdar2015", 3, 64, 64)
    assert message.startswith("the model requires mmcv's operator 'modulated_deform_conv_forward'")


def test_a_detector_that_does_not_return_one_tensor_is_refused(build: Callable[..., Any]) -> None:
    name = "fcenet_resnet50_fpn_1500e_totaltext"
    message, _ = fault(build, name, 3, 64, 64)
    assert message == f"'{name}' returns a list; expected one tensor of maps"


def test_a_size_that_the_network_cannot_take_is_refused(build: Callable[..., Any]) -> None:
    message, hint = fault(build, CRNN, 1, 64, 100)
    assert message == (
        f"'{CRNN}' cannot be run with images of 1x64x100: AssertionError: feature height must be 1"
    )
    assert hint == "--input sets another size"
    message, _ = fault(build, CRNN, 3, 32, 100)
    assert "to have 1 channels, but got 3 channels instead" in message


def test_weights_of_another_number_of_characters_are_refused(
    build: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, image, _ = build(CRNN)
    torch.save({"state_dict": model.network.state_dict()}, "crnn.pth")
    loaded, _, _ = build(CRNN, checkpoint="crnn.pth")
    assert torch.equal(loaded(image), model(image))
    file = CONFIGS.parent / "dicts" / "english_digits_symbols.txt"
    arguments = {"decoder": {"dictionary": {"dict_file": str(file)}}}
    message, _ = fault(build, CRNN, checkpoint="crnn.pth", arguments=arguments)
    assert message.startswith("'crnn.pth' does not fit CRNN: ")
    assert "[37, 512]" in message
