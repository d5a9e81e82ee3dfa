#!/usr/bin/env bash
# onnx's reference evaluator takes the lengths and the activations of recurrent layers, and ignores them.
#
# Guess: an evaluator raises an error for an input or an attribute that it does not implement.
# Seen with onnx 1.23.2, NumPy 2.3.5 and ONNX Runtime 1.23.2 on Python 3.11: GRU and LSTM run to the
#   last step of the longest sequence, with their usual activations and without clipping. Only RNN
#   refuses an activation that it lacks.
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
ACTIVATIONS = {"RNN": ["Relu"], "GRU": ["Sigmoid", "Relu"], "LSTM": ["Sigmoid", "Relu", "Tanh"]}


def run(kind, gates, attribute, lengths):
    model = parse_model(
        f'<ir_version: 8, opset_import: ["" : 14]> g (float[5,3,4] x, float[1,{gates * 6},4] w, '
        f"float[1,{gates * 6},6] r, int32[3] n) => (float[5,1,3,6] y) "
        f'{{ y = {kind}<hidden_size = 6{attribute}>(x, w, r, "", n) }}'
    )
    rows = gates * 6
    feed = {"x": draw.standard_normal((5, 3, 4)), "w": draw.standard_normal((1, rows, 4))}
    feed = {k: v.astype("f4") for k, v in {**feed, "r": draw.standard_normal((1, rows, 6))}.items()}
    feed["n"] = numpy.int32(lengths)
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    try:
        (found,) = ReferenceEvaluator(model).run(None, feed)
    except RuntimeError as err:
        return f"RuntimeError: {err}"
    return "as ONNX Runtime" if numpy.allclose(wanted, found, atol=1e-4) else "differs"


for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    names = ", ".join(f'"{name}"' for name in ACTIVATIONS[kind])
    print(f"{kind}, equal lengths: {run(kind, gates, '', [5, 5, 5])}")
    print(f"{kind}, lengths 5, 3 and 1: {run(kind, gates, '', [5, 3, 1])}")
    print(f"{kind}, clipped at 0.1: {run(kind, gates, ', clip = 0.1', [5, 5, 5])}")
    print(f"{kind}, Relu: {run(kind, gates, f', activations = [{names}]', [5, 5, 5])}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
RNN, equal lengths: as ONNX Runtime
RNN, lengths 5, 3 and 1: differs
RNN, clipped at 0.1: differs
RNN, Relu: RuntimeError: Unknown activation function 'Relu'.
GRU, equal lengths: as ONNX Runtime
GRU, lengths 5, 3 and 1: differs
GRU, clipped at 0.1: differs
GRU, Relu: differs
LSTM, equal lengths: as ONNX Runtime
LSTM, lengths 5, 3 and 1: differs
LSTM, clipped at 0.1: differs
LSTM, Relu: differs
EXPECTED
