#!/usr/bin/env bash
# OpenVINO reads a Softmax of opsets 11 and 12 as one of opset 13, and an older one as it is meant.
#
# Guess: a reader that knows the old definition of an operator uses it for all old opsets.
# Seen with OpenVINO 2025.4.1, onnx 1.23.2 and ONNX Runtime 1.23.2 on Python 3.11: below opset 13 a
#   Softmax is over all axes from `axis` on together. OpenVINO does so at opset 9; at 11 and 12 it is
#   over `axis` alone, without an error. LogSoftmax and Hardmax are right at every opset.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet openvino==2025.4.1 onnx==1.23.2 numpy==2.3.5 onnxruntime==1.23.2
cat > "$folder/run.py" <<'PYTHON'
import numpy
import onnxruntime
import openvino
from onnx.parser import parse_model

X = numpy.arange(24, dtype=numpy.float32).reshape(2, 3, 4) / 8
for name in ("Softmax", "LogSoftmax", "Hardmax"):
    for opset in (9, 11, 12, 13):
        model = parse_model(
            f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[2,3,4] x) => (float[2,3,4] y) '
            f"{{ y = {name}<axis = 1>(x) }}"
        ).SerializeToString()
        (wanted,) = onnxruntime.InferenceSession(model).run(None, {"x": X})
        found = openvino.compile_model(openvino.Core().read_model(model), "CPU")(X)[0]
        print(f"{name} of opset {opset}: off by {abs(wanted - found).max():.2f}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
Softmax of opset 9: off by 0.00
Softmax of opset 11: off by 0.40
Softmax of opset 12: off by 0.40
Softmax of opset 13: off by 0.00
LogSoftmax of opset 9: off by 0.00
LogSoftmax of opset 11: off by 0.00
LogSoftmax of opset 12: off by 0.00
LogSoftmax of opset 13: off by 0.00
Hardmax of opset 9: off by 0.00
Hardmax of opset 11: off by 0.00
Hardmax of opset 12: off by 0.00
Hardmax of opset 13: off by 0.00
EXPECTED
