"""Record ``docs/how-to/report-example.json``: the report of the digits on three engines.

    python docs/build/record_report.py

It needs the lab, ONNX Runtime, OpenVINO with NNCF, ncnn and scikit-learn, and a calm machine: other
work shows in the latencies, and from figures that do not agree no ratio is computed.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from write_pages import EXAMPLE, ROOT

#: The folder of the clone in the commands of the report.
CLONE = "/home/user/enginebay"

DIGITS = "examples/digits/digits.py"
ARTIFACTS = " ".join(
    f"digits/{backend}-{precision}"
    for backend in ("onnxruntime", "openvino", "ncnn")
    for precision in ("fp32", "int8")
)
FP32_AND_INT8 = "--backend onnxruntime,openvino,ncnn --precision fp32,int8"
DATA = f"--data {DIGITS}:calibration --take 300"
MEASURE = f"--data {DIGITS}:held_out --metric accuracy --model {DIGITS}:trained"
#: The commands, each with the file of its output.
COMMANDS = (
    (f"compare {DIGITS}:trained {FP32_AND_INT8} {DATA} --duration 0 --work-dir digits", None),
    (f"benchmark {ARTIFACTS} --against pytorch --duration 6 --json", "speed.json"),
    (f"evaluate {ARTIFACTS} {MEASURE} --json", "accuracy.json"),
    ("report digits speed.json accuracy.json --output report.json", None),
)


def main() -> None:
    """Run the commands where the example is, and write the report's data."""
    with TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples" / "digits", Path(folder, "examples", "digits"))
        for command, output in COMMANDS:
            program = Path(sys.executable).with_name("enginebay")
            printed = subprocess.run(
                [program, *shlex.split(command)], cwd=folder, stdout=subprocess.PIPE, check=True
            ).stdout
            if output:
                Path(folder, output).write_bytes(printed)
        report = Path(folder, "report.json").read_text(encoding="utf-8")
    EXAMPLE.write_text(report.replace(folder, CLONE), encoding="utf-8")


if __name__ == "__main__":
    main()
