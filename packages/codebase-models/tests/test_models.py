"""Models are built by name, and engines run them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import enginebay as eb
from enginebay.authors.sources import find_model
from enginebay.hooks import ModelRequest
from enginebay_models.plugin import model_sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TINY = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
#: A model, its arguments, and the shape of each of its example inputs.
MODELS: list[tuple[str, dict[str, Any], dict[str, tuple[int, ...]]]] = [
    ("transformers:resnet", RESNET, {"pixel_values": (1, 3, 224, 224)}),
    ("transformers:ResNetForImageClassification", RESNET, {"pixel_values": (1, 3, 224, 224)}),
    ("transformers:ResNetConfig", RESNET, {"pixel_values": (1, 3, 224, 224)}),
    (
        "transformers:vit",
        {**TINY, "image_size": 32, "num_channels": 1},
        {"pixel_values": (1, 1, 32, 32)},
    ),
    ("transformers:bert", TINY, {"input_ids": (1, 16), "attention_mask": (1, 16)}),
    (
        "transformers:t5",
        {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2},
        {"input_ids": (1, 16), "attention_mask": (1, 16), "decoder_input_ids": (1, 16)},
    ),
    ("transformers:Wav2Vec2Model", TINY, {"input_values": (1, 16000)}),
    (
        "transformers:audio-spectrogram-transformer",
        {**TINY, "max_length": 64},
        {"input_values": (1, 64, 128)},
    ),
    (
        "transformers:whisper",
        {
            "d_model": 16,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "max_source_positions": 32,
        },
        {"input_features": (1, 80, 64), "decoder_input_ids": (1, 16)},
    ),
    ("timm:resnet10t", {}, {"": (1, 3, 176, 176)}),
    ("timm:resnet18.a1_in1k", {"num_classes": 3}, {"": (1, 3, 224, 224)}),
    ("torchvision:squeezenet1_1", {}, {"": (1, 3, 224, 224)}),
    ("torchvision:lraspp_mobilenet_v3_large", {}, {"": (1, 3, 224, 224)}),
    ("torchvision:r3d_18", {}, {"": (1, 3, 16, 112, 112)}),
]


def build(model: str, shapes: dict[str, tuple[int, ...]] | None = None, **section: Any) -> Any:
    scheme, _, name = model.partition(":")
    request = ModelRequest(name=name, codebase_config=section, input_shapes=shapes or {})
    return model_sources()[scheme](request)[:2]  # test_tasks.py tries the others


@pytest.mark.parametrize(("name", "arguments", "shapes"), MODELS, ids=[m[0] for m in MODELS])
def test_a_model_comes_with_inputs_that_it_takes(
    name: str, arguments: dict[str, Any], shapes: dict[str, tuple[int, ...]]
) -> None:
    model, inputs = build(name, arguments=arguments)
    assert not model.training
    named = inputs if isinstance(inputs, dict) else {"": inputs}
    assert {key: tuple(value.shape) for key, value in named.items()} == shapes
    with torch.no_grad():
        assert model(**inputs) if isinstance(inputs, dict) else model(inputs) is not None


@pytest.mark.parametrize("name", ["timm:resnet10t", "torchvision:squeezenet1_1"])
def test_the_same_name_produces_the_same_weights(name: str) -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    (first, image), (second, again) = build(name), build(name)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(image, again)
    for mine, other in zip(first.state_dict().values(), second.state_dict().values(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("name", ["timm:efficientnet_b0", "torchvision:efficientnet_b0"])
def test_random_weights_tell_images_apart(name: str) -> None:
    """As the library builds it, the scores are 1e-5 and 1e-14: an engine could return zeros."""
    model, image = build(name, {"x": (1, 3, 64, 64)})
    with torch.no_grad():
        first, second = model(image), model(torch.rand_like(image))
    assert (first - second).abs().max() > 0.05


def test_models_are_built_for_the_requested_size() -> None:
    shapes = {"image": (1, 1, 64, 32)}
    model, image = build("timm:vit_tiny_patch16_224", shapes)
    assert image.shape == (1, 1, 64, 32)
    assert model(image).shape == (1, 1000)
    model, inputs = build("transformers:vit", shapes, arguments=TINY)
    assert model(**inputs).last_hidden_state.shape == (1, 4 * 2 + 1, 32)
    assert build("torchvision:squeezenet1_1", {"": (1, 3, 64, 64)})[1].shape == (1, 3, 64, 64)


def test_a_model_with_unknown_inputs_has_no_example_inputs() -> None:
    found = build("transformers:time_series_transformer", arguments={"prediction_length": 4})
    assert isinstance(found[0], torch.nn.Module)
    assert found[1] is None


@pytest.mark.parametrize("suffix", ["pt", "pth", "safetensors"])
def test_weights_of_a_local_file_are_loaded(suffix: str, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    model, image = build("torchvision:squeezenet1_1")
    torch.nn.init.ones_(model.classifier[1].bias)
    path = tmp_path / f"weights.{suffix}"
    if suffix == "safetensors":
        save_file(model.state_dict(), path)
    else:
        state = model.state_dict()
        torch.save({"state_dict": state, "epoch": 3} if suffix == "pth" else state, path)
    loaded, _ = build("torchvision:squeezenet1_1", checkpoint=str(path))
    assert torch.equal(loaded(image), model(image))


@pytest.mark.parametrize(
    ("model", "origin"),
    [("timm:resnet10t", "random (seed 0)"), ("torchvision:squeezenet1_1", "random (seed 0)")],
)
def test_the_origin_of_random_weights_is_reported(model: str, origin: str) -> None:
    assert find_model(model).weights == origin


def test_weights_in_a_models_name_are_loaded(tmp_path: Path) -> None:
    model, image = build("torchvision:squeezenet1_1")
    torch.nn.init.ones_(model.classifier[1].bias)
    torch.save(model.state_dict(), path := tmp_path / "best.pth")
    found = find_model(f"torchvision:squeezenet1_1?weights={path}")
    assert torch.equal(found.module(image), model(image))
    assert found.weights.startswith(f"{path}, sha256 ")


def test_a_folder_is_reported_as_the_origin_of_its_weights(tmp_path: Path) -> None:
    model, _ = build("transformers:ResNetForImageClassification", arguments=RESNET)
    model.save_pretrained(tmp_path)
    assert find_model(f"transformers:{tmp_path}").weights == str(tmp_path)


@pytest.mark.parametrize("model", ["timm:resnet10t", "transformers:google/vit-of-nobody"])
def test_a_failed_download_is_reported_in_one_line(
    model: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # The variable HF_HUB_OFFLINE is read once, at the import; with a network that responds to
    # nothing the library tries for half a minute.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(eb.EnginebayError) as caught:
        find_model(f"{model}?pretrained")
    message = f"the pretrained weights of '{model}' cannot be downloaded: "
    assert str(caught.value).startswith(message)
    assert caught.value.exit_code == 1
    assert capfd.readouterr().err == ""


def test_a_local_folder_of_transformers_is_loaded(tmp_path: Path) -> None:
    model, inputs = build("transformers:ResNetForImageClassification", arguments=RESNET)
    torch.nn.init.ones_(model.classifier[1].bias)
    model.save_pretrained(tmp_path / "mine")
    loaded, _ = build(f"transformers:{tmp_path}/mine")
    assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
    (tmp_path / "mine" / "model.safetensors").unlink()
    fresh, _ = build(f"transformers:{tmp_path}/mine")
    assert not torch.equal(fresh(**inputs).logits, model(**inputs).logits)


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "ncnn"])
@pytest.mark.parametrize("model", ["timm:resnet10t", "torchvision:squeezenet1_1"])
def test_engines_run_a_model_by_its_name(
    deploy: Callable[..., eb.Deployment], model: str, backend: str
) -> None:
    assert deploy(model, backend, input_shape=[64, 48]).verdict == "verified"


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "ncnn"])
def test_engines_run_a_model_of_transformers(
    deploy: Callable[..., eb.Deployment], backend: str
) -> None:
    deployment = deploy("transformers:resnet", backend, arguments=RESNET, input_shape=[64, 48])
    assert deployment.verdict == "verified"
    (image,) = deployment.artifact.manifest.inputs
    assert (image.name, image.dims) == ("pixel_values", (1, 3, 48, 64))


def test_deploy_does_not_change_a_cache_of_transformers(tmp_path: Path) -> None:
    """A forward advances it, and the exporter used to leave its fake tensors in it."""
    from transformers import DynamicCache

    class WithCache(torch.nn.Linear):
        def forward(self, x: torch.Tensor, cache: DynamicCache) -> torch.Tensor:
            keys, values = cache.update(super().forward(x), x, 0)
            return keys * values

    model, cache, x = WithCache(4, 4), DynamicCache(), torch.ones(1, 1, 2, 4)
    model(x, cache)
    keys = cache.layers[0].keys
    for name in ("first", "second"):
        deployed = eb.deploy(model, (x, cache), backend="onnxruntime", work_dir=tmp_path / name)
        assert deployed.verdict == "verified"
    assert cache.layers[0].keys is keys
    assert cache.get_seq_length() == 2
