#!/usr/bin/env bash
# Qualcomm's provider accepts a library that does not exist, and then takes no node.
#
# Guess: a session whose provider cannot load the library in `backend_path`, or gets an option that
#   it does not know, fails or warns.
# Seen with onnxruntime 1.32.0, onnxruntime-qnn 2.7.0 (its emulator), onnx 1.23.2 and NumPy 2.3.5
#   on Python 3.11, x86-64: the session is made, `get_providers()` lists the provider, and the CPU
#   runs the node; an unknown option has no effect.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet onnx==1.23.2 numpy==2.3.5 onnxruntime==1.32.0 onnxruntime-qnn==2.7.0
cat > "$folder/run.py" <<'PYTHON'
import onnxruntime
import onnxruntime_qnn
from onnx.parser import parse_model

onnxruntime.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
device = [each for each in onnxruntime.get_ep_devices() if each.ep_name == "QNN"]
model = parse_model(
    '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
)
path = onnxruntime_qnn.get_qnn_htp_path()
for given in ({"backend_path": path, "no_such": "1"}, {"backend_path": "/nowhere.so"}):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_provider_for_devices(device, given)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    ran = [part.ep_name for part in session.get_provider_graph_assignment_info()]
    print(f"result of {list(given)}: {session.get_providers()[0]} is listed, {ran[0]} runs Relu")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | grep result | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
result of ['backend_path', 'no_such']: QNN is listed, QNN runs Relu
result of ['backend_path']: QNN is listed, CPUExecutionProvider runs Relu
EXPECTED
