#!/usr/bin/env bash
# onnx's reference evaluator gives operators of old files the meaning, or the defaults, of new ones.
#
# Guess: an evaluator that knows an operator at several opsets computes what each of them defines.
# Seen with onnx 1.23.2, NumPy 2.3.5 and ONNX Runtime 1.23.2 on Python 3.11: an attribute that a node
#   leaves out gets the default of the newest opset. A Softmax of opset 11 is over the last axis, not
#   over all axes from 1 on, and a RoiAlign of opset 10 is shifted by half a pixel. A
#   BatchNormalization of opset 9 always has a momentum by default, and with one it blends in the
#   statistics of the batch, as in training. All of them are as ONNX Runtime's at opset 21.
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

draw = numpy.random.default_rng(0)
X = draw.random((2, 3, 8, 8), numpy.float32)
NORM = {name: draw.random(3, numpy.float32) for name in "sbmv"}
BOXES = {"r": numpy.float32([[0, 0, 4, 4], [1, 2, 5.5, 6]]), "i": numpy.int64([0, 1])}
CASES = {
    "Softmax": ((11, 13), "Softmax(x)", "", {}),
    "Softmax<axis = 1>": ((11, 13), "Softmax<axis = 1>(x)", "", {}),
    "BatchNormalization": (
        (9, 14), "BatchNormalization(x, s, b, m, v)", "".join(f", float[3] {n}" for n in NORM), NORM
    ),
    "RoiAlign": (
        (10, 16), "RoiAlign<output_height = 2, output_width = 2>(x, r, i)", ", float[2,4] r, int64[2] i", BOXES
    ),
}
for name, (opsets, call, inputs, feed) in CASES.items():
    for opset in (*opsets, 21):
        model = parse_model(
            f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[2,3,8,8] x{inputs}) => '
            f"(float[a,b,c,d] y) {{ y = {call} }}"
        )
        given = {"x": X, **feed}
        (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)
        (found,) = ReferenceEvaluator(model).run(None, given)
        print(f"{name} of opset {opset}: off by {abs(wanted - found).max():.1f}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
Softmax of opset 11: off by 0.2
Softmax of opset 13: off by 0.0
Softmax of opset 21: off by 0.0
Softmax<axis = 1> of opset 11: off by 0.5
Softmax<axis = 1> of opset 13: off by 0.0
Softmax<axis = 1> of opset 21: off by 0.0
BatchNormalization of opset 9: off by 3.4
BatchNormalization of opset 14: off by 0.0
BatchNormalization of opset 21: off by 0.0
RoiAlign of opset 10: off by 0.3
RoiAlign of opset 16: off by 0.0
RoiAlign of opset 21: off by 0.0
EXPECTED
