"""The plugin's description, its imports and its README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import enginebay as eb
from enginebay.errors import ParamsError
from enginebay_openvino.params import OpenvinoParams
from enginebay_testing.command_runs import call_command

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.process
def test_running_an_artifact_imports_no_torch(write, tmp_path):
    model = write("(float[2] x) => (float[2] y) { y = Relu(x) }")
    eb.convert(model, backend="openvino", work_dir=tmp_path / "out")
    code = (
        "import sys, numpy as np, enginebay as eb\n"
        f"with eb.load({str(tmp_path / 'out')!r}) as net:\n"
        "    print(net({'x': np.array([-1, 2], np.float32)})['y'].tolist())\n"
        "print([name for name in ('torch', 'onnx', 'nncf') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["[0.0, 2.0]", "[]"]


def test_the_plugin_lists_irs_devices_and_precisions(backend):
    assert backend.info.irs[0] == "onnx"
    assert set(backend.info.irs) == {"onnx", "torchscript", "exported_program"}
    assert backend.info.devices == ("cpu", "gpu", "npu")
    assert backend.info.precisions[0] == "fp32"


def test_the_model_files_are_in_the_work_folder():
    params = OpenvinoParams(work_dir="out", file_name="net")
    assert [Path(file).as_posix() for file in params.get_model_files()] == [
        "out/net.xml",
        "out/net.bin",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"precision": "fp8"}, "expected one of 'fp32', 'fp16', 'bf16', 'int8'"),
        ({"performance_hint": "speed"}, "expected one of 'latency', 'throughput'"),
        ({"theads": 2}, "OpenvinoParams got 'theads', which is not one of its fields"),
        ({"streams": -1}, "expected int >= 0"),
    ],
)
def test_invalid_params_are_refused(given, message):
    with pytest.raises(ParamsError) as raised:
        OpenvinoParams(**given)
    assert message in str(raised.value)


def test_every_parameter_is_a_flag(capfd):
    code, shown, _ = call_command(capfd, "convert", "openvino", "--help")
    assert code == 0
    for name in OpenvinoParams.__struct_fields__:
        assert f"--{name.replace('_', '-')}" in shown


def test_the_readme_lists_every_parameter():
    rows = re.findall(r"^\| (`[^|]+) \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(OpenvinoParams.__struct_fields__)
