"""A bundle's greedy loop against the best loop by hand over its file, and against PyTorch.

All use two threads, and must return the same tokens. It is not measured beside Optimum, which needs
an older transformers than enginebay-transformers.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.table import Row
from benchmarks.turns import calls, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from enginebay_transformers import Bundle

    Ids = np.ndarray[Any, np.dtype[np.int64]]

PROMPT, TOKENS, THREADS = 16, 64, 2
WHAT = f"Llama, 8 layers, 512 wide: {TOKENS} tokens"


def run() -> Iterator[Row]:
    """Measure the loops; a prompt of 16 tokens, one row."""
    is_installed = find_spec("enginebay_transformers") is not None
    if not is_installed or int(version("transformers").partition(".")[0]) < 5:
        needs = "enginebay-transformers with transformers 5"
        print(f"decoder: not measured without {needs}", file=sys.stderr)
        return
    import torch

    from enginebay_transformers import deploy_decoder, open_bundle

    model = _build()
    ids = np.random.default_rng(0).integers(0, model.config.vocab_size, (1, PROMPT))
    with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
        made = deploy_decoder(
            model,
            backend="onnxruntime",
            work_dir=Path(folder) / "bundle",
            params={"intra_op_threads": THREADS},
            prompts=2,
            tokens=4,
            positions=128,
        )
        before = torch.get_num_threads()
        torch.set_num_threads(THREADS)
        try:
            with open_bundle(made.path) as bundle:
                by_hand = _loop_by_hand(bundle, made.deployment.artifact.path / "model.onnx")
                ours = calls(bundle.generate, ids, None, TOKENS)
                expected = bundle.generate(ids, None, TOKENS)
                for against, function, limit in (
                    ("a loop by hand on OrtValues", by_hand, 1.1),
                    ("model.generate of PyTorch", _generate(model), 0.8),
                ):
                    np.testing.assert_array_equal(function(ids), expected)
                    found = compare(ours, calls(function, ids), calls_a_turn=1, turns=12)
                    yield Row.of("decoder", WHAT, against, found, "ms", limit)
        finally:
            torch.set_num_threads(before)


def _build() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 128}
    tokens = {"vocab_size": 8192, "eos_token_id": None, "pad_token_id": 0}
    # Weights so large that the tokens differ.
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, **tokens, initializer_range=0.05)).eval()


def _generate(model: Any) -> Callable[[Ids], Ids]:
    import torch

    def generate(ids: Ids) -> Ids:
        with torch.no_grad():
            return model.generate(torch.from_numpy(ids), max_new_tokens=TOKENS).numpy()  # type: ignore[no-any-return]  # a model of transformers

    return generate


def _loop_by_hand(bundle: Bundle, path: Path) -> Callable[[Ids], Ids]:
    """Return the loop that was the fastest by hand: the cache stays in ONNX Runtime's values.

    An IOBinding for each token takes longer, since its names are bound one by one.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    outputs = ["logits", *bundle.generation.cache.values()]
    heads, size = (session.get_inputs()[-1].shape[axis] for axis in (1, 3))

    def generate(ids: Ids) -> Ids:
        row = ids
        found = [value(np.empty((1, heads, 0, size), np.float32)) for _ in outputs]
        for end in range(PROMPT, PROMPT + TOKENS):
            feed = dict(zip(bundle.generation.cache, found[1:], strict=True))
            feed["input_ids"] = value(row)
            feed["attention_mask"] = value(np.ones((1, end), np.int64))
            feed["position_ids"] = value(np.arange(end - row.shape[1], end)[None])
            found = session.run_with_ort_values(outputs, feed)
            row = found[0].numpy()[:, -1].argmax(-1)[None]
            ids = np.concatenate([ids, row], 1)
        return ids

    return generate
