#!/usr/bin/env bash
# The parts into which transformers divides a model for generation leave encoders out, without a word.
#
# Guess: the parts of a model together take what generate takes, and have all weights that generate uses.
# Seen with transformers 5.24.0 and torch 2.13.0 on Python 3.11: for an encoder and a decoder (Whisper) there
#   are two parts, and both take the encoder's outputs: none takes the sound. For Llava the image encoder and
#   the projector are no parts, although the documentation lists them: generate runs them before the call
#   that is captured. The past of the captured decoding step is one token long.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 transformers==5.24.0
cat > "$folder/run.py" <<'PYTHON'
import torch
from transformers import (
    CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, WhisperConfig,
    WhisperForConditionalGeneration,
)
from transformers.exporters.utils import decompose_for_generation

torch.manual_seed(0)
sizes = dict(encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2)
whisper = WhisperForConditionalGeneration(WhisperConfig(
    vocab_size=60, d_model=16, encoder_ffn_dim=24, decoder_ffn_dim=24, num_mel_bins=8,
    max_source_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    decoder_start_token_id=1, **sizes,
)).eval()
llava = LlavaForConditionalGeneration(LlavaConfig(
    vision_config=CLIPVisionConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        image_size=8, patch_size=4,
    ),
    text_config=LlamaConfig(
        vocab_size=60, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
        num_attention_heads=2,
    ),
    image_token_index=59, vision_feature_layer=-1,
)).eval()
ids = torch.tensor([[3, 59, 59, 59, 59, 4]])
samples = {
    "Whisper": (whisper, {"input_features": torch.randn(1, 8, 40)}),
    "Llava": (llava, {"input_ids": ids, "pixel_values": torch.randn(1, 3, 8, 8)}),
}
for name, (model, sample) in samples.items():
    parts = decompose_for_generation(model, sample)
    arguments = {argument for _, inputs in parts.values() for argument in inputs}
    print(f"{name}: parts {', '.join(parts)}; none takes {', '.join({*sample} - arguments)}")
    if name == "Whisper":
        past = parts["decode"][1]["cache"].get_seq_length()
        print(f"{name}: decode has a past of {past}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" 2>/dev/null | tee "$folder/found"
cat > "$folder/expected" <<'EXPECTED'
Whisper: parts prefill, decode; none takes input_features
Whisper: decode has a past of 1
Llava: parts language_model, lm_head, decode; none takes pixel_values
EXPECTED
diff "$folder/expected" "$folder/found"
