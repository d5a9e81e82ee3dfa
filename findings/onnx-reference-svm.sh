#!/usr/bin/env bash
# onnx's reference evaluator couples the pairs of an SVMClassifier of three classes wrongly.
#
# Guess: if each pair's probability is p_i / (p_i + p_j), the classes have the probabilities p.
# Seen with onnx 1.23.2, NumPy 2.3.5 and ONNX Runtime 1.23.2 on Python 3.11: ONNX Runtime returns p, up
#   to the limit of the iteration. onnx fills a row of the matrix with the scalar product of products
#   that stand alone. Two classes are right. Every SVC(probability=True) that skl2onnx writes is such.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet onnx==1.23.2 numpy==2.3.5 onnxruntime==1.23.2
cat > "$folder/run.py" <<'PYTHON'
import numpy
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

for wanted in ((0.7, 0.3), (0.7, 0.2, 0.1)):
    count = len(wanted)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    node = helper.make_node(
        "SVMClassifier", ["x"], ["label", "p"], domain="ai.onnx.ml", kernel_type="LINEAR",
        classlabels_ints=[*range(count)], vectors_per_class=[1] * count, support_vectors=[1.0] * count,
        coefficients=[1.0] * count * (count - 1), kernel_params=[0.0, 0.0, 0.0], post_transform="NONE",
        rho=[0.0] * len(pairs), prob_a=[0.0] * len(pairs),
        prob_b=[float(numpy.log(wanted[j] / wanted[i])) for i, j in pairs],
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])
    label = helper.make_tensor_value_info("label", TensorProto.INT64, [1])
    p = helper.make_tensor_value_info("p", TensorProto.FLOAT, [1, count])
    graph = helper.make_graph([node], "g", [x], [label, p])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    feed = {"x": numpy.ones((1, 1), numpy.float32)}
    found = ReferenceEvaluator(model).run(None, feed)[1][0]
    engine = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)[1][0]
    print(f"{wanted}: onnx {numpy.round(found, 2)}, ONNX Runtime {numpy.round(engine, 2)}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
(0.7, 0.3): onnx [0.7 0.3], ONNX Runtime [0.7 0.3]
(0.7, 0.2, 0.1): onnx [0.64 0.22 0.14], ONNX Runtime [0.7 0.2 0.1]
EXPECTED
