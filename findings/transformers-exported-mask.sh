#!/usr/bin/env bash
# transformers exports a decoder without the mask that it was given, if no row of the sample is padded.
#
# Guess: an argument that is passed to the export is an input of the exported model.
# Seen with transformers 5.24.0, torch 2.13.0, onnxscript 0.7.2 and onnxruntime 1.32.0 on Python 3.11:
#   generate drops a mask of ones before the parts are captured, and no part of the export has it. A mask
#   that is passed to the exported prefill is then ignored, and the logits of a row that is padded on the
#   left are those without padding. Exported from a sample with a padded row, they are right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 transformers==5.24.0 onnx==1.23.2 onnxscript==0.7.2 \
    onnxruntime==1.32.0
cat > "$folder/run.py" <<'PYTHON'
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.exporters import OnnxConfig, OnnxExporter

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2
)
model = LlamaForCausalLM(config).eval()
ids = torch.randint(3, 50, (2, 7))
padded = torch.ones_like(ids)
padded[1, :3] = 0
call = {
    "input_ids": ids, "attention_mask": padded,
    "position_ids": (padded.cumsum(1) - 1).clamp(min=0),
}
for name, mask in (("ones", torch.ones_like(ids)), ("padded", padded)):
    sample = {"input_ids": ids, "attention_mask": mask}
    exported = OnnxExporter().export_for_generation(model, sample, OnnxConfig(dynamic=True))
    prefill = exported.runners["prefill"]
    inputs = sorted(each.name for each in prefill.session.get_inputs())
    with torch.no_grad():
        right, found = model(**call).logits[:, -1], prefill(**call).logits[:, -1]
    equal = [torch.allclose(a, b, atol=1e-4) for a, b in zip(right, found)]
    print(f"{name}: inputs {', '.join(inputs)}; whole row equal {equal[0]}, padded {equal[1]}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" 2>/dev/null | grep -v '^\[torch.onnx\]\|^Skipped' | tee "$folder/found"
cat > "$folder/expected" <<'EXPECTED'
ones: inputs input_ids, position_ids; whole row equal True, padded False
padded: inputs attention_mask, input_ids, position_ids; whole row equal True, padded True
EXPECTED
diff "$folder/expected" "$folder/found"
