#!/usr/bin/env bash
# onnx's reference evaluator concatenates the scan outputs of a Loop, which must be stacked.
#
# Guess: Loop and Scan return the outputs of their turns in the same way, with a new first axis.
# Seen with onnx 1.23.2, NumPy 2.3.5 and ONNX Runtime 1.23.2 on Python 3.11: Scan stacks. Loop calls
#   numpy.vstack, which makes [3, 1] of 3 scalars, is right for vectors, and makes [6, 4] of 3
#   matrices of [2, 4]. For no turns it fails. Every LSTM that tf2onnx wrote is such a Loop.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet onnx==1.23.2 numpy==2.3.5 onnxruntime==1.23.2
cat > "$folder/run.py" <<'PYTHON'
import numpy
import onnxruntime
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

BODY = "(int64 i, bool go, float{kind} a) => (bool more, float{kind} b, float{kind} out) { more = Identity(go) b = Add(a, x) out = Mul(a, b) }"
TEXT = '<ir_version: 8, opset_import: ["" : 17]> g (float{kind} x, int64 n) => (float{kind} y, float[{dims}] all) {{ keep = Constant<value = bool {{1}}>() y, all = Loop(n, keep, x) <body = body {body}> }}'
for shape in ((), (4,), (2, 4)):
    for turns in (3, 0):
        kind = f"[{', '.join(map(str, shape))}]" if shape else ""
        dims = ", ".join("tuv"[: len(shape) + 1])
        model = parse_model(TEXT.format(kind=kind, dims=dims, body=BODY.replace("{kind}", kind)))
        feed = {"x": numpy.ones(shape, numpy.float32), "n": numpy.array(turns)}
        wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)[1].shape
        try:
            found = ReferenceEvaluator(model).run(None, feed)[1].shape
        except ValueError as err:
            found = f"ValueError: {err}"
        print(f"{turns} turns of {shape}: {found}, in ONNX Runtime {wanted}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
3 turns of (): (3, 1), in ONNX Runtime (3,)
0 turns of (): ValueError: need at least one array to concatenate, in ONNX Runtime (0,)
3 turns of (4,): (3, 4), in ONNX Runtime (3, 4)
0 turns of (4,): ValueError: need at least one array to concatenate, in ONNX Runtime (0, 4)
3 turns of (2, 4): (6, 4), in ONNX Runtime (3, 2, 4)
0 turns of (2, 4): ValueError: need at least one array to concatenate, in ONNX Runtime (0, 2, 4)
EXPECTED
