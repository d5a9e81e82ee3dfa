#!/usr/bin/env bash
# A call of transformers' Swin that raises changes the results of all later calls.
#
# Guess: a model in evaluation mode is a function of its inputs and weights, and a call that raises
#   leaves it as it was.
# Seen with transformers 5.24.0 and torch 2.13.0 on Python 3.11: for an image smaller than a window, a
#   layer of SwinModel shrinks its attribute window_size, which a larger image never restores. The
#   table of relative positions has the size of the configured window, so the call itself raises a
#   RuntimeError, and so does every later call, at sizes that worked before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 transformers==5.24.0
cat > "$folder/run.py" <<'PYTHON'
import torch
from transformers import SwinConfig, SwinModel

torch.manual_seed(0)
config = SwinConfig(
    image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4
)
model = SwinModel(config).eval()


def call(size):
    windows = [layer.window_size for stage in model.encoder.layers for layer in stage.blocks]
    try:
        with torch.no_grad():
            shape = tuple(model(torch.zeros(1, 3, size, size)).last_hidden_state.shape)
    except RuntimeError as err:
        shape = type(err).__name__
    print(f"windows {windows}, image {size}x{size}: {shape}")


for size in (32, 16, 2, 32, 16):
    call(size)
PYTHON
"$folder/env/bin/python" "$folder/run.py" 2>/dev/null | tee "$folder/found"
cat > "$folder/expected" <<'EXPECTED'
windows [4, 4], image 32x32: (1, 64, 32)
windows [4, 4], image 16x16: (1, 16, 32)
windows [4, 4], image 2x2: RuntimeError
windows [1, 4], image 32x32: RuntimeError
windows [1, 4], image 16x16: RuntimeError
EXPECTED
diff "$folder/expected" "$folder/found"
