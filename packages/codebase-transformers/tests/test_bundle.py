"""Bundles: decoders whose tokens were compared with those of ``model.generate``."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
import torch
import transformers as tf

import enginebay as eb
from enginebay.errors import ArtifactError, ArtifactExistsError, NotVerifiedError, UsageError
from enginebay_transformers import deploy_decoder, open_bundle
from enginebay_transformers.decoder import compare_tokens

from .conftest import SIZES, TOKENS, WIDE, build_decoder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from enginebay_transformers import Bundle, BundleDeployment


MASK = "expected 0 at padding on the left, then 1"


def make(model: Any, folder: Path, backend: str = "onnxruntime", **options: Any) -> Any:
    return deploy_decoder(model, backend=backend, work_dir=folder / "bundle", **options)


def refusal(model: Any, folder: Path, **options: Any) -> str:
    """Return the one message with which the model is refused, before anything is written."""
    with pytest.raises(UsageError) as caught:
        make(model, folder, **options)
    assert not [*folder.iterdir()]
    return str(caught.value)


@pytest.fixture
def copy(made: BundleDeployment, tmp_path: Path) -> Path:
    """A copy of the bundle's folder, to damage."""
    return shutil.copytree(made.path, tmp_path / "copy")


def reference(model: Any, ids: Any, mask: Any, tokens: int) -> Any:
    options = {"max_new_tokens": tokens, "do_sample": False}
    ids, mask = torch.tensor(ids), torch.tensor(mask)
    return model.generate(ids, attention_mask=mask, **options).numpy()


def test_bundle_has_one_artifact_and_a_verdict_on_tokens(made: BundleDeployment) -> None:
    assert sorted(path.name for path in made.path.iterdir()) == ["decoder", "generation.json"]
    assert made.deployment.verdict == eb.open_artifact(made.path / "decoder").verdict == "verified"
    assert [each.verdict for each in made.prompts].count("wrong") == 0
    lengths = [each.length for each in made.prompts if each.batched]
    assert lengths == [each.length for each in made.prompts if not each.batched]
    assert (min(lengths), max(lengths)) == (1, 24)
    stored = json.loads((made.path / "generation.json").read_text())
    assert stored["prompts"] == [msgspec.to_builtins(each) for each in made.prompts]
    assert [*stored["cache"].items()][1] == ("cache.0.value", "cache.0.value_out")
    assert made.path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("padding", [0, 3])
def test_tokens_are_those_of_generate_up_to_the_last_position(
    padding: int, wide: Any, bundle: Bundle
) -> None:
    ids = np.random.default_rng(padding).integers(0, 50, (4, 9))
    mask = np.ones_like(ids)
    mask[1, :padding] = mask[3, : 2 * padding] = 0
    found = bundle.generate(ids, mask, 56)
    np.testing.assert_array_equal(found, reference(wide, ids, mask, 56))
    assert found.dtype == np.int64
    assert len({*found[:, 9:].flat}) > 10
    ended = (found[:, 9:] == 2).any(1)
    assert ended.any()


def test_generation_stops_when_each_row_has_ended(wide: Any, bundle: Bundle) -> None:
    rows = [ids for ids in range(50) if 2 in bundle.generate([[ids]], None, 8)]
    assert rows
    found = bundle.generate(np.array(rows, "uint8")[:, None], max_new_tokens=50)
    mask = [[1]] * len(rows)
    np.testing.assert_array_equal(found, reference(wide, [[r] for r in rows], mask, 50))
    assert found.shape[1] <= 9


@pytest.mark.process
def test_a_bundle_runs_without_torch_and_transformers(made: BundleDeployment) -> None:
    code = (
        "import sys; from enginebay_transformers import open_bundle\n"
        f"with open_bundle({str(made.path)!r}) as bundle: print(bundle.generate([[3, 4]]).shape)\n"
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[1] == "set()"


def build_gpt_neo() -> Any:
    """Return a decoder that has a table of the positions that each position sees."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 64}
    layers = {"attention_types": [[["global", "local"], 1]], "window_size": 8, "vocab_size": 50}
    return tf.GPTNeoForCausalLM(tf.GPTNeoConfig(**sizes, **layers, **TOKENS, **WIDE)).eval()


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("kind", "backend"),
    [
        *((kind, "openvino") for kind in ("gemma3", "llama", "gpt2", "qwen3", "mixtral")),
        *((kind, "onnxruntime") for kind in ("mistral", "gpt2", "gemma3", "mixtral", "qwen3")),
        ("mistral", "openvino"),
        ("gpt-neo", "onnxruntime"),
    ],
)
def test_each_kind_of_decoder_becomes_a_bundle(kind: str, backend: str, tmp_path: Path) -> None:
    model = build_gpt_neo() if kind == "gpt-neo" else build_decoder(kind, **WIDE)
    made = make(model, tmp_path, backend)
    assert [each.verdict for each in made.prompts] == ["equal"] * 16
    # Longer than the window of sliding layers, which is 8.
    assert max(each.length for each in made.prompts) == 24


def test_tokens_whose_logits_are_within_the_tolerance_are_undecided(
    wide: Any, bundle: Bundle, made: BundleDeployment
) -> None:
    other = build_decoder("llama", **WIDE)
    other.load_state_dict(wide.state_dict())
    with torch.no_grad():
        other.lm_head.weight[[7, 8]] = wide.lm_head.weight[[8, 7]]
    verdicts = [*compare_tokens(other, bundle, made.deployment, 8, 16)]
    kinds = {each.verdict for each in verdicts}
    assert kinds == {"equal", "undecided"}
    detail = next(each.detail for each in verdicts if each.detail)
    assert "is 8, expected 7; their logits differ by " in detail


class Greeting(tf.LlamaForCausalLM):
    """A decoder whose ``generate`` does more than its ``forward``."""

    def prepare_inputs_for_generation(self, *args: Any, **kwargs: Any) -> Any:
        inputs = super().prepare_inputs_for_generation(*args, **kwargs)
        return inputs | {"input_ids": (inputs["input_ids"] + 1) % 50}


@pytest.fixture
def greeting() -> Any:
    torch.manual_seed(0)
    sizes = SIZES | {"num_hidden_layers": 1}
    return Greeting(tf.LlamaConfig(**sizes, **TOKENS, **WIDE)).eval()


def test_wrong_tokens_are_refused_with_their_figures(greeting: Any, tmp_path: Path) -> None:
    with pytest.raises(NotVerifiedError) as caught:
        make(greeting, tmp_path, prompts=2, tokens=4)
    text = str(caught.value)
    assert text.startswith(
        "mismatched: the tokens after 4 of 4 prompts are wrong; the prompt of 1 "
    )
    assert "tokens alone: new token 0 is " in text
    assert caught.value.verdict.verdict == "mismatched"
    assert caught.value.hint == "--allow-mismatch publishes the bundle with this verdict"
    assert not [*tmp_path.iterdir()]


def test_greedy_and_allow_mismatch_publish_a_bundle_that_says_so(
    greeting: Any, tmp_path: Path
) -> None:
    greeting.generation_config.update(do_sample=True, temperature=0.6)
    allowed = {"allow_mismatch": True}
    made = make(greeting, tmp_path, prompts=2, tokens=4, greedy=True, verify=allowed)
    assert "greedy: the bundle ignores do_sample=True, temperature=0.6" in made.deployment.notes
    table = "alone +0 +0 +2\\nin a left-padded batch +0 +0 +2\\nthe prompt of 1 tokens alone: "
    assert re.search(table, str(made))
    with open_bundle(made.path) as opened:
        assert [each.verdict for each in opened.generation.prompts] == ["wrong"] * 4


def test_generation_config_is_refused_with_the_name_of_every_field(tmp_path: Path) -> None:
    model = build_decoder("llama")
    model.generation_config.update(
        do_sample=True, temperature=0.6, top_p=0.9, repetition_penalty=1.2, suppress_tokens=[5]
    )
    assert refusal(model, tmp_path, greedy=True) == (
        "the generation config asks for repetition_penalty=1.2, suppress_tokens=[5], and a bundle "
        "only appends the most probable token"
    )
    text = refusal(model, tmp_path)
    for name in ("do_sample=True", "temperature=0.6", "top_p=0.9", "repetition_penalty=1.2"):
        assert name in text
    model.generation_config.update(repetition_penalty=1.0, suppress_tokens=None)
    with pytest.raises(UsageError) as caught:
        make(model, tmp_path)
    assert caught.value.hint == "--greedy makes a bundle that does not sample"


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("t5", "it is an encoder and a decoder, and a bundle has no encoder"),
        ("whisper", "it is an encoder and a decoder, and a bundle has no encoder"),
        ("llava", "images or sound are among its inputs: pixel_values"),
        ("mamba", "it has layers without a cache of keys and values: linear_attention"),
        ("openai-gpt", "its forward takes no cache of keys and values"),
        ("linear", "it has no 'generate'"),
        ("bert", "it has no 'generate'"),
    ],
)
def test_other_models_are_refused_with_the_cause(
    kind: str, cause: str, build: Any, tmp_path: Path
) -> None:
    small = {"num_hidden_layers": 1, "hidden_size": 8}
    others: dict[str, Callable[[], Any]] = {
        "mamba": lambda: tf.MambaForCausalLM(tf.MambaConfig(**small, vocab_size=20, state_size=2)),
        "openai-gpt": lambda: tf.OpenAIGPTLMHeadModel(
            tf.OpenAIGPTConfig(n_embd=8, n_layer=1, n_head=2, vocab_size=20)
        ),
        "linear": lambda: torch.nn.Linear(2, 2),
        "bert": lambda: tf.BertModel(tf.BertConfig(**small, num_attention_heads=2)),
    }
    text = refusal(others[kind]() if kind in others else build(kind), tmp_path)
    assert "cannot become a bundle: " in text
    assert cause in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"prompts": 0}, "expected 1 prompt and 1 token, found 0 and 16"),
        ({"tokens": 0}, "expected 1 prompt and 1 token, found 8 and 0"),
        ({"positions": 20, "tokens": 16}, "16 new tokens require 24 positions, and there are 20"),
        ({"positions": 8}, "its 1 new tokens require 9 positions, and there are 8"),
        ({"positions": -5}, "require 9 positions, and there are -5"),
    ],
)
def test_wrong_counts_are_refused(options: Any, text: str, llama: Any, tmp_path: Path) -> None:
    assert refusal(llama, tmp_path, **options).endswith(text)


def test_static_cache_is_refused_by_name(tmp_path: Path) -> None:
    model = build_decoder("llama")
    model.generation_config.cache_implementation = "static"
    assert "asks for cache_implementation='static'" in refusal(model, tmp_path)


def test_engine_without_empty_tensors_is_refused_before_the_export(tmp_path: Path) -> None:
    pytest.importorskip("ncnn", reason="ncnn is not installed")
    text = refusal(build_decoder("llama"), tmp_path, backend="ncnn")
    assert text.startswith("backend 'ncnn' cannot open the past of a cache: ")
    assert text.endswith("ncnn does not support empty tensors")


def test_existing_folder_is_not_replaced(wide: Any, copy: Path) -> None:
    with pytest.raises(ArtifactExistsError, match="exists: expected a new path"):
        deploy_decoder(wide, backend="onnxruntime", work_dir=copy)
    assert open_bundle(copy).generation.prompts


@pytest.mark.parametrize(
    ("ids", "mask", "tokens", "text"),
    [
        ([[1, 50]], None, 4, "row 0: id 50 is not in the decoder's table of 50 ids"),
        ([[3], [-1]], None, 4, "row 1: id -1 is not in the decoder's table of 50 ids"),
        ([[]], None, 4, "expected ids batch × tokens, found shape (1, 0): a prompt is empty"),
        ([1, 2], None, 4, "expected ids batch × tokens, found shape (2,)"),
        ([[1], [2, 3]], None, 4, "the ids have rows of different lengths"),
        ([[1.0, 2.0]], None, 4, "expected ids of integers, found float64"),
        ([[1, 2]], [[0, 0]], 4, f"row 0: the mask is [0 0], {MASK}"),
        ([[1, 2]], [[1, 0]], 4, f"row 0: the mask is [1 0], {MASK}"),
        ([[1, 2], [1, 2]], [[0, 1], [1, 2]], 4, f"row 1: the mask is [1 2], {MASK}"),
        ([[1, 2]], [[-1, 1]], 4, f"row 0: the mask is [-1  1], {MASK}"),
        ([[1, 2]], [[1]], 4, "the mask has shape (1, 1), and the ids have (1, 2)"),
        (
            [[1, 2]],
            None,
            64,
            "prompts of 2 tokens and 64 new tokens require 65 positions, and the bundle has 64",
        ),
        ([[1, 2]], None, 1.5, "max_new_tokens is 1.5, expected an integer of 1 or more"),
        ([[1, 2]], None, 0, "max_new_tokens is 0, expected an integer of 1 or more"),
    ],
)
def test_wrong_prompt_is_one_clear_message(
    ids: Any, mask: Any, tokens: int, text: str, bundle: Bundle
) -> None:
    with pytest.raises(UsageError) as caught:
        bundle.generate(ids, mask, tokens)
    assert str(caught.value) == text


def _edit(copy: Path, change: Callable[[dict[str, Any]], object]) -> None:
    file = copy / "generation.json"
    record = json.loads(file.read_text())
    change(record)
    file.write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (
            lambda copy: (copy / "generation.json").unlink(),
            "generation.json' cannot be read: No s",
        ),
        (lambda copy: shutil.rmtree(copy / "decoder"), 'decoder" does not exist: expected the dir'),
        (lambda copy: (copy / "decoder/model.onnx").unlink(), "model.onnx"),
        (lambda copy: (copy / "generation.json").write_text("[]"), "is no record of a bundle: "),
        (lambda copy: (copy / "generation.json").write_text("{"), "is no record of a bundle: "),
        (
            lambda copy: _edit(copy, lambda record: record.update(schema=2)),
            "has schema 2, and this release reads schema 1",
        ),
        (
            lambda copy: _edit(copy, lambda record: record["cache"].popitem()),
            "generation.json' was changed after the bundle was made",
        ),
        (
            lambda copy: _edit(copy, lambda record: record.pop("eos")),
            "is no record of a bundle: Object missing required field `eos`",
        ),
    ],
)
def test_damaged_bundle_is_refused_before_an_engine_reads_it(
    damage: Callable[[Path], object], text: str, copy: Path
) -> None:
    damage(copy)
    with pytest.raises(ArtifactError) as caught:
        open_bundle(copy)
    assert text in str(caught.value)


def test_artifact_of_another_model_is_refused(copy: Path, tmp_path: Path) -> None:
    shutil.rmtree(copy / "decoder")
    x = torch.ones(1, 3)
    eb.deploy(torch.nn.ReLU(), x, backend="onnxruntime", work_dir=copy / "decoder")
    with pytest.raises(ArtifactError, match="' is of another artifact than '"):
        open_bundle(copy)
