#!/usr/bin/env bash
# Qualcomm's provider cuts int64 to 32 bits without an error.
#
# Guess: a provider that takes a node in int64 computes with 64 bits, or leaves the node to the CPU.
# Seen with onnxruntime 1.32.0, onnxruntime-qnn 2.7.0 (its emulator), onnx 1.23.2 and NumPy 2.3.5
#   on Python 3.11, x86-64: Identity keeps 64 bits, and Concat and Add return the lower 32.
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

onnxruntime.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
device = [each for each in onnxruntime.get_ep_devices() if each.ep_name == "QNN"]
x = numpy.array([3, 2**40 + 5], numpy.int64)
for node in ("Identity(x)", "Concat <axis = 0> (x, x)", "Add(x, x)"):
    model = parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (int64[2] x) => (int64[n] y) { y = '
        f"{node} }}"
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(device, {"backend_path": onnxruntime_qnn.get_qnn_htp_path()})
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    print(f"result of {node}: {session.run(None, {'x': x})[0].tolist()}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | grep result | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
result of Identity(x): [3, 1099511627781]
result of Concat <axis = 0> (x, x): [3, 5, 3, 5]
result of Add(x, x): [6, 10]
EXPECTED
