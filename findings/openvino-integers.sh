#!/usr/bin/env bash
# OpenVINO computes with integers beyond 2**24 in float32 on the CPU, and compares them there, too.
#
# Guess: operators of int32 and int64 are exact within the range of the dtype.
# Seen with OpenVINO 2025.4.1, onnx 1.23.2, NumPy 2.3.5 and ONNX Runtime 1.23.2 on Python 3.11: sums,
#   differences and products are exact. Quotients, remainders and powers are rounded, and two
#   numbers that are equal in float32 are equal: 16777216 and 16777217, without an error.
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

A = numpy.arange(2**24, 2**24 + 1000)
for kind in ("int32", "int64"):
    for name in ("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Equal", "Less"):
        out = "bool" if name in ("Equal", "Less") else kind
        model = parse_model(
            f'<ir_version: 8, opset_import: ["" : 18]> g ({kind}[1000] a, {kind}[1000] b) => '
            f"({out}[1000] y) {{ y = {name}(a, b) }}"
        ).SerializeToString()
        other = {"Equal": A + 1, "Less": A + 1, "Pow": 2, "Mul": 7, "Div": 3, "Mod": 7}.get(name, A)
        base = numpy.arange(4097, 5097) if name == "Pow" else A
        feed = {"a": base.astype(kind), "b": numpy.broadcast_to(other, 1000).astype(kind)}
        (wanted,) = onnxruntime.InferenceSession(model).run(None, feed)
        network = openvino.compile_model(openvino.Core().read_model(model), "CPU")
        wrong = (network([feed["a"], feed["b"]])[0] != wanted).any()
        print(f"{name} of {kind}: {'wrong' if wrong else 'exact'}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
Add of int32: exact
Sub of int32: exact
Mul of int32: exact
Div of int32: wrong
Mod of int32: wrong
Pow of int32: wrong
Equal of int32: wrong
Less of int32: wrong
Add of int64: exact
Sub of int64: exact
Mul of int64: exact
Div of int64: wrong
Mod of int64: wrong
Pow of int64: wrong
Equal of int64: wrong
Less of int64: wrong
EXPECTED
