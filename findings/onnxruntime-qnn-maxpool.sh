#!/usr/bin/env bash
# Qualcomm's provider pads a float MaxPool with 0, and not with the lowest number.
#
# Guess: padding never is a maximum, as ONNX specifies and as the same pool in QDQ form gives.
# Seen with onnxruntime 1.32.0, onnxruntime-qnn 2.7.0 (its emulator), onnx 1.23.2 and NumPy 2.3.5
#   on Python 3.11, x86-64: in float the first row and column of negative values are 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet onnx==1.23.2 numpy==2.3.5 onnxruntime==1.32.0 onnxruntime-qnn==2.7.0
cat > "$folder/run.py" <<'PYTHON'
import numpy
import onnxruntime
import onnxruntime_qnn
from onnx.parser import parse_model

POOL = "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)"
QDQ = """
q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
p = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (d)
r = QuantizeLinear(p, s, z) y = DequantizeLinear(r, s, z)
"""
onnxruntime.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
device = [each for each in onnxruntime.get_ep_devices() if each.ep_name == "QNN"]
x = numpy.full((1, 1, 8, 8), -1, numpy.float32)
for name, nodes in {"float": POOL, "QDQ": QDQ}.items():
    constants = "<float s = {0.01}, uint8 z = {255}>" if name == "QDQ" else ""
    model = parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1, 1, 8, 8] x) => (float[1, 1, 4, 4] y)'
        f"{constants} {{ {nodes} }}"
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(device, {"backend_path": onnxruntime_qnn.get_qnn_htp_path()})
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (y,) = session.run(None, {"x": x})
    print(f"{name}: {(numpy.abs(y + 1) > 0.1).sum()} of {y.size} elements are wrong, the largest is {y.max():.1f}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | grep elements | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
float: 7 of 16 elements are wrong, the largest is 0.0
QDQ: 0 of 16 elements are wrong, the largest is -1.0
EXPECTED
