#!/usr/bin/env bash
# onnx's version converter, used upwards, changes what Resize, Upsample and Hardmax compute.
#
# Guess: a model that converts without an error computes the same at the newer opset.
# Seen with onnx 1.23.2, NumPy 2.3.5 and ONNX Runtime 1.23.2 on Python 3.11: the modes of a Resize
#   below opset 11 are left out, whose defaults mean another thing; the axis of a Hardmax below 13
#   is kept, which then is one axis and no longer all from it on (Softmax is right); the model's
#   local functions are dropped.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet onnx==1.23.2 numpy==2.3.5 onnxruntime==1.23.2
cat > "$folder/run.py" <<'PYTHON'
import numpy
import onnxruntime
from onnx.parser import parse_model
from onnx.version_converter import convert_version

X = numpy.arange(16, dtype=numpy.float32).reshape(1, 2, 2, 4) % 7
CASES = {
    "linear Upsample of opset 9": (9, 'Upsample<mode = "linear">(x, s)', ""),
    "nearest Upsample of opset 9": (9, 'Upsample<mode = "nearest">(x, s)', ""),
    "linear Resize of opset 10": (10, 'Resize<mode = "linear">(x, s)', ""),
    "Hardmax of opset 11": (11, "Hardmax<axis = 1>(x)", ""),
    "Softmax of opset 11": (11, "Softmax<axis = 1>(x)", ""),
    "a function": (12, "f.g(x)", '<domain: "f", opset_import: ["" : 12]> g (x) => (y) { y = Neg(x) }'),
}
onnxruntime.set_default_logger_severity(4)
for name, (opset, call, function) in CASES.items():
    model = parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "f" : 1]> g (float[1,2,2,4] x) => '
        f"(float[a,b,c,d] y) <float[4] s = {{1, 1, 2, 2}}> {{ y = {call} }} {function}"
    )
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": X})
    newer = convert_version(model, 13)
    if len(newer.functions) < len(model.functions):
        print(f"{name}: dropped")
        continue
    (found,) = onnxruntime.InferenceSession(newer.SerializeToString()).run(None, {"x": X})
    print(f"{name}: off by {abs(found - wanted).max():.2f}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
linear Upsample of opset 9: off by 1.81
nearest Upsample of opset 9: off by 0.00
linear Resize of opset 10: off by 1.81
Hardmax of opset 11: off by 1.00
Softmax of opset 11: off by 0.00
a function: dropped
EXPECTED
