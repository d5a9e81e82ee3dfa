#!/usr/bin/env bash
# A conversion of the dtype under torch.vmap can be captured with a dynamic size, and not decomposed.
#
# Guess: what torch.export captures, `run_decompositions` takes, on which torch's ONNX exporter
#   builds; a conversion with `.to(dtype)` is as harmless as one by the promotion of a product.
# Seen with torch 2.13.0 on the CPU: the capture of `row.argsort().to(row.dtype)` under torch.vmap has
#   a node `aten._assert_tensor_metadata`, which checks what `.to` was given. The captured program
#   runs and is right. Its decomposition runs the node under vmap again, on a tensor whose size is a
#   symbol, and ends with "Cannot call sizes() on tensor with symbolic sizes/strides". With fixed
#   sizes it works, and so it does if the product with a float converts.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 numpy
cd "$folder"
cat > run.py <<'PY'
import torch
from torch.export import Dim, export


class Mapped(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return torch.vmap(self.function)(x)


ways = {
    "to": lambda row: row.argsort().to(row.dtype) / row.shape[0],
    "product": lambda row: row.argsort() * 1.0 / row.shape[0],
}
x = torch.randn(3, 5)
for way, function in ways.items():
    for size in (None, Dim("n", min=2, max=64)):
        model = Mapped(function)
        program = export(model, (x,), dynamic_shapes=size and ({0: None, 1: size},))
        assert torch.equal(program.module()(x), model(x))
        try:
            program.run_decompositions()
            found = "decomposed"
        except RuntimeError as error:
            found = str(error).splitlines()[0]
        print(f"{way}, {'dynamic' if size else 'fixed'}: {found}")
PY
env/bin/python -W ignore run.py 2> /dev/null | tee found
diff found - <<'EXPECTED'
to, fixed: decomposed
to, dynamic: Cannot call sizes() on tensor with symbolic sizes/strides
product, fixed: decomposed
product, dynamic: decomposed
EXPECTED
