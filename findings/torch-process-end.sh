#!/usr/bin/env bash
# The end of a Python process that has imported torch's compiler takes a second of the processor, and
# most of it is a search for garbage that gc.freeze() spares.
#
# Guess: after its last line a process is gone in some milliseconds; the system takes the memory.
# Seen with torch 2.13.0 on Python 3.11: Python's finalisation collects garbage several times, each
#   time over the million objects that `import torch._dynamo` has made: 1.2 to 1.3 s of the processor,
#   and 0.2 to 0.4 s after gc.freeze(), which keeps atexit handlers and destructors by reference count.
#   After an export by torch.onnx it is 2.2 to 2.4 s and 0.5 s, of 11 s in all.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 numpy
cat > "$folder/run.py" <<'PYTHON'
import resource
import statistics
import subprocess
import sys

PROCESS = """
import gc, resource, sys
import torch._dynamo
if sys.argv[1:]:
    gc.freeze()
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, flush=True)
"""


def time_end(*words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", PROCESS, *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return whole - float(ran.stdout)


time_end()  # which writes the compiled modules
plain, frozen = zip(*[(time_end(), time_end("freeze")) for _ in range(5)])
plain, frozen = statistics.median(plain), statistics.median(frozen)
print(f"{plain:.2f} s, after gc.freeze() {frozen:.2f} s", file=sys.stderr)
print("the end is at least twice as long without gc.freeze():", plain > 2 * frozen)
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
the end is at least twice as long without gc.freeze(): True
EXPECTED
