"""Decoding steps of transformers' models, with the cache as inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from transformers import (
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    StaticCache,
)

import enginebay as eb
from enginebay.authors.sources import find_model
from enginebay.models import bind

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

NAMES = [f"past_key_values.{layer}.{part}" for layer in (0, 1) for part in ("key", "value")]
PRESENT = [name.replace("past_key_values", "present") for name in NAMES]

NET = """
from tests.test_decoders import decoder, step

def build():
    model = decoder("gpt2")
    return model, step(model, 5)
"""


def decoder(kind: str) -> Any:
    """Return a decoder of two layers with random weights."""
    torch.manual_seed(0)
    shared = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 0}
    if kind == "gpt2":
        return GPT2LMHeadModel(
            GPT2Config(n_layer=2, n_head=2, n_embd=16, n_positions=64, **shared)
        ).eval()
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, **shared)).eval()


def step(model: Any, past: int) -> dict[str, Any]:
    """Return the next token, and the cache after ``past`` tokens."""
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(torch.randint(50, (1, past)), past_key_values=cache, use_cache=True)
    return {"input_ids": torch.randint(50, (1, 1)), "past_key_values": cache}


def arrays(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the same inputs by the names of an artifact."""
    layers = inputs["past_key_values"].layers
    tensors = [part for layer in layers for part in (layer.keys, layer.values)]
    named = {name: tensor.numpy() for name, tensor in zip(NAMES, tensors, strict=True)}
    return {"input_ids": inputs["input_ids"].numpy(), **named}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "backend", "export"),
    [
        ("gpt2", "onnxruntime", {"exporter": "torchscript"}),
        ("gpt2", "openvino", {}),
        ("llama", "onnxruntime", {"exporter": "torchscript"}),
    ],
)
def test_decoding_step_matches_at_every_cache_length(kind, backend, export, tmp_path: Path) -> None:
    model = decoder(kind)
    inputs = step(model, 5)
    deployment = eb.deploy(
        *(model, inputs),
        backend=backend,
        work_dir=tmp_path / "out",
        dynamic={"past_key_values": {2: ("past", 1, 32)}},
        export=export,
    )
    assert deployment.verdict == "verified"
    assert inputs["past_key_values"].get_seq_length() == 5, "the caller's cache does not grow"
    engine = eb.load(tmp_path / "out")
    for past in (1, 2, 7, 16, 32):
        given = step(model, past)
        outputs = engine(arrays(given))
        with torch.no_grad():
            logits = model(**given).logits
        assert list(outputs) == ["logits", *PRESENT]
        np.testing.assert_allclose(outputs["logits"], logits, rtol=1e-4, atol=1e-5)
        for name, layer in zip(PRESENT[::2], given["past_key_values"].layers, strict=True):
            np.testing.assert_allclose(outputs[name], layer.keys, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["torchscript", "exported_program"])
def test_torchscript_and_pt2_have_the_cache_as_inputs(kind: Any, tmp_path: Path) -> None:
    model = decoder("llama")
    past = {"past_key_values": {2: "past"}}
    ir = eb.export(
        model,
        step(model, 5),
        path=tmp_path / "step",
        dynamic=past,
        options=eb.ExportOptions(ir=kind),
    )
    assert [spec.name for spec in ir.inputs] == ["input_ids", *NAMES]
    assert [spec.dims for spec in ir.inputs[1:]] == [(1, 2, "past", 4)] * 4
    assert [spec.name for spec in ir.outputs] == ["logits", *PRESENT]


def test_empty_cache_adds_outputs_but_no_inputs() -> None:
    model = decoder("llama")
    inputs = {"input_ids": torch.ones(1, 3, dtype=torch.int64), "past_key_values": DynamicCache()}
    bound = bind(find_model(model), inputs)
    assert [spec.name for spec in bound.inputs] == ["input_ids"]
    assert [spec.name for spec in bound.outputs] == ["logits", *PRESENT]


def test_cache_output_is_left_out_without_a_cache_input() -> None:
    signature = bind(find_model(decoder("gpt2")), {"input_ids": torch.ones(1, 3).long()}).signature
    assert signature is not None
    assert [spec.name for spec in signature.outputs] == ["logits"]
    assert signature.notes == (
        (
            "output 'past_key_values' is of type DynamicCache, not a tensor, and is left out; "
            "pass a cache as an input to make it an output"
        ),
    )


def test_static_cache_is_an_output_and_the_callers_stays_unchanged(tmp_path: Path) -> None:
    model = decoder("llama")
    cache = StaticCache(config=model.config, max_cache_len=8)
    with torch.no_grad():
        model(torch.ones(1, 3, dtype=torch.int64), past_key_values=cache)
    before = cache.layers[0].keys.clone()
    inputs = {"input_ids": torch.ones(1, 1, dtype=torch.int64), "past_key_values": cache}
    deployment = eb.deploy(
        model,
        inputs,
        backend="onnxruntime",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(exporter="torchscript"),
    )
    assert deployment.verdict == "verified"
    names = [spec.name for spec in deployment.artifact.manifest.outputs]
    assert "present.1.cumulative_length" in names
    assert torch.equal(cache.layers[0].keys, before)


def test_shape_flags_open_the_cache_dimension(here: Path, cli: Run) -> None:
    (here / "net.py").write_text(NET)
    sizes = ("--min-shapes", "past_key_values:1x2x1x8", "--max-shapes", "past_key_values:1x2x32x8")
    deployed = cli(
        "deploy",
        "net.py:build",
        "--backend",
        "onnxruntime",
        "--work-dir",
        "out",
        *sizes,
        "--exporter",
        "torchscript",
    )
    assert deployed.code == 0, deployed.err
    ran = cli("run", "out", *(f"--input={name}=1x2x9x8" for name in NAMES))
    assert ran.code == 0, ran.err
    assert "1x2x10x8" in ran.out
