#!/usr/bin/env bash
# onnx's inliner forgets the default values of a local function's attributes, without an error.
#
# Guess: a function <slope: float = 0.3> that is called without slope is inlined with 0.3.
# Seen with onnx 1.23.2, onnx-ir 0.2.1, NumPy 2.3.5 and ONNX Runtime 1.23.2 on Python 3.11: the node in
#   its body gets no attribute, so that LeakyRelu takes its own default of 0.01. ONNX Runtime and
#   onnx-ir's InlinePass take 0.3.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet onnx==1.23.2 onnx-ir==0.2.1 numpy==2.3.5 onnxruntime==1.23.2
cat > "$folder/run.py" <<'PYTHON'
import numpy
import onnx_ir
import onnxruntime
from onnx.inliner import inline_local_functions
from onnx.parser import parse_model
from onnx_ir.passes.common import InlinePass

model = parse_model("""<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
g (float[1] x) => (float[1] y) { y = own.leaky(x) }
<domain: "own", opset_import: ["" : 17]>
leaky <slope: float = 0.3> (a) => (b) { b = LeakyRelu<alpha: float = @slope>(a) }""")
other = onnx_ir.from_proto(model)
InlinePass()(other)
models = {"with the function": model, "onnx": inline_local_functions(model), "onnx-ir": onnx_ir.to_proto(other)}
for name, each in models.items():
    session = onnxruntime.InferenceSession(each.SerializeToString())
    found = session.run(None, {"x": numpy.float32([-1])})[0]
    print(f"{name}: {found[0]:.2f}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
with the function: -0.30
onnx: -0.01
onnx-ir: -0.30
EXPECTED
