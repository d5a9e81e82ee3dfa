#!/usr/bin/env bash
# ONNX Runtime's Sigmoid has an absolute error of 1e-7, and so no right digit below -16.
#
# Guess: a function of one number in float32 has a relative error of some 1e-7, as Exp, Tanh and
#   Softmax have.
# Seen with ONNX Runtime 1.23.2 (1.32.0 too), onnx 1.23.2 and NumPy 2.3.5 on Python 3.11, x86-64:
#   small results are multiples of 6e-8, and 0 from -18 on.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet onnx==1.23.2 numpy==2.3.5 onnxruntime==1.23.2
cat > "$folder/run.py" <<'PYTHON'
import numpy
import onnxruntime
from onnx.parser import parse_model

EXACT = {
    "Sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "Exp": numpy.exp,
    "Tanh": numpy.tanh,
    "Softplus": lambda x: numpy.log1p(numpy.exp(x)),
}
for name, exact in EXACT.items():
    model = parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[100] x) => (float[100] y) {{ y = {name}(x) }}'
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for low in (-9, -13, -17, -21):
        x = numpy.linspace(low, low + 1, 100, dtype=numpy.float32)
        wanted = exact(x.astype(numpy.float64))
        (found,) = session.run(None, {"x": x})
        error = abs(found / wanted - 1).max()
        print(f"{name} from {low}: {'exact' if error < 1e-5 else 'off by more than 10 %' if error > 0.1 else 'off by less than 10 %'}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
Sigmoid from -9: off by less than 10 %
Sigmoid from -13: off by less than 10 %
Sigmoid from -17: off by more than 10 %
Sigmoid from -21: off by more than 10 %
Exp from -9: exact
Exp from -13: exact
Exp from -17: exact
Exp from -21: exact
Tanh from -9: exact
Tanh from -13: exact
Tanh from -17: exact
Tanh from -21: exact
Softplus from -9: exact
Softplus from -13: exact
Softplus from -17: exact
Softplus from -21: exact
EXPECTED
