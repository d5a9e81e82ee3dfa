#!/usr/bin/env bash
# ONNX Runtime's STFT and DFT lose two digits for frames whose length is no power of two.
#
# Guess: a Fourier transform in float32 is exact to some 1e-7 of its largest value, for any length.
# Seen with ONNX Runtime 1.23.2 (1.32.0 too), onnx 1.23.2 and NumPy 2.3.5 on Python 3.11: 2e-5 to
#   7e-5 for 320, 400 and 1000, the usual frames of speech at 16 kHz, and 5e-7 for 256 and 512.
#   NumPy in float32 has 5e-8 for all. Logarithms of faint bands of a spectrogram are off by percents.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet onnx==1.23.2 numpy==2.3.5 onnxruntime==1.23.2
cat > "$folder/run.py" <<'PYTHON'
import numpy
import onnxruntime
from onnx.parser import parse_model

draw = numpy.random.default_rng(0)
for size in (256, 320, 400, 512, 1000, 1024):
    model = parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1,{4 * size},1] x, int64 step, '
        f"float[{size}] w) => (float[1,a,b,2] y) {{ y = STFT<onesided = 1>(x, step, w) }}"
    )
    feed = {"x": draw.standard_normal((1, 4 * size, 1)).astype("f4")}
    feed |= {"step": numpy.array(size // 2), "w": numpy.hanning(size).astype("f4")}
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    frames = numpy.lib.stride_tricks.sliding_window_view(feed["x"][0, :, 0].astype("f8"), size)
    exact = numpy.fft.rfft(frames[:: size // 2] * feed["w"])
    error = abs(found[0, ..., 0] + 1j * found[0, ..., 1] - exact).max() / abs(exact).max()
    print(f"frames of {size}: {'less than 1e-6' if error < 1e-6 else 'more than 1e-5' if error > 1e-5 else error}")
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
frames of 256: less than 1e-6
frames of 320: more than 1e-5
frames of 400: more than 1e-5
frames of 512: less than 1e-6
frames of 1000: more than 1e-5
frames of 1024: less than 1e-6
EXPECTED
