#!/usr/bin/env bash
# `import torch` looks for a top-level module named `cuda`, also without a GPU, and runs the first it
# finds: a script's own cuda.py beside it becomes a part of torch's import.
#
# Guess: torch's own modules are below `torch`, and a file cuda.py is the script's business alone; if
#   torch asks for NVIDIA's cuda-python at all, then with a fallback for any failure.
# Seen with torch 2.13.0 on Python 3.11, on the CPU: torch/cuda/_utils.py imports `cuda.bindings` and
#   catches ImportError alone. A cuda.py without anything is harmless. One that itself uses torch, as
#   helpers for GPUs do, ends `import torch` with an AttributeError about a partially initialized
#   module, and the message does not name the file. If torch was imported before the folder came onto
#   the path, nothing happens.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 numpy
cd "$folder"
echo 'import torch; print("imported")' > run.py

run() {
    "$folder/env/bin/python" run.py 2>&1 | tail -n 1 | cut -d ' ' -f 1-6
}

{
    echo "without the file: $(run)"
    echo 'SIZE = 3' > cuda.py
    echo "a file of constants: $(run)"
    echo 'from torch import nn' > cuda.py
    echo "a file that uses torch: $(run)"
} | tee found
diff found - <<'EXPECTED'
without the file: imported
a file of constants: imported
a file that uses torch: AttributeError: partially initialized module 'torch' has
EXPECTED
