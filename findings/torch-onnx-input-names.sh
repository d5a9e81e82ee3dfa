#!/usr/bin/env bash
# torch.onnx.export writes an invalid file if an input is given the name of an operator.
#
# Guess: input_names= and output_names= name inputs and outputs, and the exporter chooses other names
#   for what lies in between, as it does for two nodes of one kind (cat, cat_1).
# Seen with torch 2.13.0, onnxscript 0.7.2, onnx-ir 1.1.0, onnx 1.23.2 and ONNX Runtime 1.32.0 on
#   Python 3.11: the default exporter sets the requested names at the end and does not look whether a
#   node's value has one of them. For a forward with *arguments, whose own names are args_0 and
#   args_1, an input "cat" and the result of torch.cat are one name. onnx's checker and ONNX Runtime
#   refuse the file. With forward(first, cat) the exporter itself finds the name cat_1, and
#   NameFixPass of onnx-ir mends the file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 onnxscript==0.7.2 onnx-ir==1.1.0 onnx==1.23.2 onnxruntime==1.32.0
cat > "$folder/run.py" <<'PYTHON'
import logging
import warnings

import onnx
import onnxruntime
import torch
from onnx_ir.passes.common import NameFixPass

logging.disable()
warnings.simplefilter("ignore")


class Anonymous(torch.nn.Module):
    def forward(self, *args):
        return torch.cat(args, 1) * 2


class Named(torch.nn.Module):
    def forward(self, first, cat):
        return torch.cat([first, cat], 1) * 2


def check(program):
    data = program.model_proto.SerializeToString()
    try:
        onnx.checker.check_model(data)
        checked = "valid"
    except onnx.checker.ValidationError as err:
        checked = str(err).splitlines()[0].partition(",")[0]
    try:
        onnxruntime.InferenceSession(data)
        loaded = "loaded"
    except Exception as err:
        loaded = type(err).__name__
    return f"onnx: {checked}; ONNX Runtime: {loaded}"


pair = torch.randn(2, 3), torch.randn(2, 4)
for model, names in ((Anonymous(), ["first", "cat"]), (Anonymous(), ["first", "second"]), (Named(), None)):
    program = torch.onnx.export(model.eval(), pair, dynamo=True, verbose=False, input_names=names)
    print(f"{type(model).__name__}, {names}: {check(program)}")
    if "valid" not in check(program):
        NameFixPass()(program.model)
        print(f"  after NameFixPass: {check(program)}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" 2> /dev/null | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
Anonymous, ['first', 'cat']: onnx: Graph must be in single static assignment (SSA) form; ONNX Runtime: Fail
  after NameFixPass: onnx: valid; ONNX Runtime: loaded
Anonymous, ['first', 'second']: onnx: valid; ONNX Runtime: loaded
Named, None: onnx: valid; ONNX Runtime: loaded
EXPECTED
