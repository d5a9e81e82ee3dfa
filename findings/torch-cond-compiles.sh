#!/usr/bin/env bash
# torch.cond compiles itself: where compiling is off, torch.export writes a program that fails, and a
# call under a dispatch mode breaks the next call without one.
#
# Guess: set_stance("force_eager") only runs functions of torch.compile uncompiled; torch.cond is an
#   operator, and returns the same in each call.
# Seen with torch 2.13.0 on Python 3.11: torch.cond is compiled by torch.compile on every eager call
#   and in torch.export's default mode, which makes the weights of its branches arguments. With
#   force_eager they stay attributes of the branches, the export succeeds, and run_decompositions
#   raises. After a call under a TorchDispatchMode, the same call outside of it raises Unsupported
#   until torch._dynamo.reset().
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 numpy
cat > "$folder/run.py" <<'PYTHON'
import logging
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode

logging.disable()
warnings.simplefilter("ignore")


class Watch(TorchDispatchMode):
    supports_higher_order_operators = True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bright = torch.nn.Linear(4, 3)
        self.dark = torch.nn.Linear(4, 3)

    def forward(self, x):
        return torch.cond(x.mean() > 0, lambda x: self.bright(x), lambda x: self.dark(x), (x,))


def attempt(name, call):
    try:
        call()
        print(f"{name}: works")
    except Exception as err:
        print(f"{name}: {type(err).__name__}: {str(err).splitlines()[0].partition('. ')[0]}")


model, x = Gate().eval(), torch.rand(2, 4)
with torch.no_grad(), Watch():
    attempt("under a dispatch mode", lambda: model(x))
attempt("after it", lambda: model(x))
torch._dynamo.reset()
attempt("after a reset", lambda: model(x))
for stance in ("default", "force_eager"):
    with torch.compiler.set_stance(stance):
        attempt(f"torch.export, {stance}", lambda: torch.export.export(model, (x,)).run_decompositions())
PYTHON
"$folder/env/bin/python" "$folder/run.py" 2> /dev/null | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
under a dispatch mode: works
after it: Unsupported: torch.* op returned non-Tensor
after a reset: works
torch.export, default: works
torch.export, force_eager: RuntimeError: Attempting to use FunctionalTensor on its own
EXPECTED
