#!/usr/bin/env bash
# The cache that an export of transformers returns for layers with a window says that it has no tokens.
#
# Guess: an exported model returns what the model returns, so that the next step may take its cache.
# Seen with transformers 5.24.0, torch 2.13.0 and onnxruntime 1.32.0 on Python 3.11: a layer with a
#   sliding window counts its tokens in an integer, which is no output of the graph. The exported
#   Mistral returns the right logits, keys and values for a longer prompt than the sample's, in a cache
#   with the length 0. The next step of the model in PyTorch takes this cache, and its logits for the row
#   that is padded on the left are silently others than with its own cache.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 transformers==5.24.0 onnx==1.23.2 onnxscript==0.7.2 \
    onnxruntime==1.32.0
cat > "$folder/run.py" <<'PYTHON'
import torch
from transformers import MistralConfig, MistralForCausalLM
from transformers.exporters import OnnxConfig, OnnxExporter

torch.manual_seed(0)
config = MistralConfig(
    vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=2, sliding_window=32,
    num_attention_heads=4, num_key_value_heads=2, head_dim=4, max_position_embeddings=64,
)
model = MistralForCausalLM(config).eval()


def prompts(tokens, padding):
    mask = torch.ones(2, tokens, dtype=torch.int64)
    mask[0, :padding] = 0
    return {"input_ids": torch.randint(3, 50, (2, tokens)), "attention_mask": mask}


exported = OnnxExporter().export(model, prompts(5, 2), OnnxConfig(dynamic=True))
inputs = prompts(9, 3)
with torch.no_grad():
    own, found = model(**inputs), exported(**inputs)
    print("logits equal:", torch.allclose(own.logits, found.logits, atol=1e-5))
    for name, cache in (("own", own.cache), ("exported", found.cache)):
        layer = cache.layers[0]
        print(f"{name}: keys of {layer.keys.shape[2]} tokens, length {cache.get_seq_length()}")
    mask = torch.cat([inputs["attention_mask"], torch.ones(2, 1, dtype=torch.int64)], 1)
    step = {"input_ids": torch.tensor([[7], [8]]), "attention_mask": mask}
    one, other = (model(**step, cache=cache).logits for cache in (own.cache, found.cache))
    for row, name in enumerate(("padded", "whole")):
        print(f"next step, {name} row equal:", torch.allclose(one[row], other[row], atol=1e-3))
PYTHON
"$folder/env/bin/python" "$folder/run.py" 2>/dev/null | grep -v '^\[torch.onnx\]\|^Skipped' | tee "$folder/found"
cat > "$folder/expected" <<'EXPECTED'
logits equal: True
own: keys of 9 tokens, length 9
exported: keys of 9 tokens, length 0
next step, padded row equal: False
next step, whole row equal: True
EXPECTED
diff "$folder/expected" "$folder/found"
