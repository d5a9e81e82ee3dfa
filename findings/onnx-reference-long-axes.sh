#!/usr/bin/env bash
# onnx's reference evaluator returns wrong values, or fails, for GatherElements on an axis of 64.
#
# Guess: an evaluator that is written for clarity takes an axis of any length, as the operator does.
# Seen with onnx 1.23.2, NumPy 2.3.5 and ONNX Runtime 1.23.2 on Python 3.11: the evaluator calls
#   numpy.choose with one array for each element of the axis, which takes 63 of them. From 64 on, it
#   takes matrices to a second function, which looks up each row of the indices in the same row of
#   the data, whatever the axis is. On axis 0 that is ValueError or IndexError, and for a column of
#   zeros the column itself in place of its first element. GatherND takes 64.
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

HEAD = '<ir_version: 10, opset_import: ["" : 17]> g (float[n, k] x, int64[m, j] i) => '
GRAPHS = {
    "GatherElements": "(float[m, j] y) { y = GatherElements<axis = 0>(x, i) }",
    "GatherND": "(float[m] y) { y = GatherND(x, i) }",
}


def run(name, x, indices):
    model = parse_model(HEAD + GRAPHS[name])
    feed = {"x": x, "i": indices}
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    try:
        (found,) = ReferenceEvaluator(model).run(None, feed)
    except (ValueError, IndexError) as err:
        return f"{type(err).__name__}: {err}"
    if numpy.array_equal(wanted, found):
        return "as ONNX Runtime"
    return f"{found.ravel()[:3].tolist()} … where ONNX Runtime has {wanted.ravel()[:3].tolist()} …"


for length in (63, 64):
    pairs = numpy.arange(2.0 * length, dtype=numpy.float32).reshape(length, 2)
    column = pairs[:, :1].copy()
    for last in (1, 3):
        indices = numpy.int64([[1, 0], [last, 1]])
        print(f"{length} rows, indices up to {last}: {run('GatherElements', pairs, indices)}")
    print(f"{length} rows, a column of zeros: {run('GatherElements', column, numpy.zeros((length, 1), numpy.int64))}")
    print(f"{length} rows, GatherND: {run('GatherND', pairs, numpy.int64([[1, 0], [3, 1]]))}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
63 rows, indices up to 1: as ONNX Runtime
63 rows, indices up to 3: as ONNX Runtime
63 rows, a column of zeros: as ONNX Runtime
63 rows, GatherND: as ONNX Runtime
64 rows, indices up to 1: ValueError: zip() argument 2 is shorter than argument 1
64 rows, indices up to 3: IndexError: index 3 is out of bounds for axis 0 with size 2
64 rows, a column of zeros: [0.0, 2.0, 4.0] … where ONNX Runtime has [0.0, 0.0, 0.0] …
64 rows, GatherND: as ONNX Runtime
EXPECTED
