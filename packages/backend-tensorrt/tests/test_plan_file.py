"""The plan reaches the disk as the library makes it, whole or not at all.

The library is TensorRT for RTX itself, in a process for each case, where no stand-ins are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(
        find_spec("tensorrt_rtx_bindings") is None, reason="TensorRT for RTX is not installed"
    ),
    pytest.mark.process,  # a fork has the stand-in for CUDA
]

#: Two million weights: the plan's head fits where they do not.
SIZE = 1400

_BUILD = """
import os, resource, sys
import enginebay as eb
from enginebay_tensorrt import api
if sys.argv[1] != "0":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
try:
    {}
except eb.EnginebayError as err:
    print(err)
    print(os.listdir("disk"))
"""

_BARE = """
import sys
import tensorrt_rtx_bindings as trt
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(0)
parser = trt.OnnxParser(network, logger)
assert parser.parse_from_file("m.onnx")
config = builder.create_builder_config()
config.clear_flag(trt.BuilderFlag.TF32)
with open("bare.engine", "wb") as file:
    file.write(builder.build_serialized_network(network, config))
"""

#: Mounts a disk of 1 MB, seen by one process alone, and runs a command there.
_DISK = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
_MOUNT = 'mount -t tmpfs -o size=1m tmpfs disk || exit 77; exec "$@"'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model and an empty folder."""
    weights = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, SIZE]) for n in "xy")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weights, "w")])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    (tmp_path / "disk").mkdir()
    return tmp_path


def run(folder: Path, *command: str) -> str:
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    real = [path for path in paths if not path.endswith("fake")]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(real)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def python(code: str, limit: int = 0) -> list[str]:
    """Return a command that runs a statement with a limit on the size of files."""
    return [sys.executable, "-W", "ignore", "-c", _BUILD.format(code), str(limit)]


SAVE = 'api.save(api.from_onnx("m.onnx", backend="tensorrt-rtx"), "our.engine")'
CONVERT = 'eb.convert("m.onnx", backend="tensorrt-rtx", work_dir="disk/out")'


def test_a_plan_equals_the_builders_own(folder: Path) -> None:
    run(folder, sys.executable, "-c", _BARE)
    assert run(folder, *python(SAVE)) == ""
    assert (folder / "our.engine").read_bytes() == (folder / "bare.engine").read_bytes()


# The builder itself returns success when nothing can be written.


def test_a_file_above_the_size_limit_is_an_error(folder: Path) -> None:
    printed = run(folder, *python(CONVERT, 1_000_000))
    assert printed == failure(folder, "File too large")


def test_a_failed_save_keeps_the_older_file(folder: Path) -> None:
    (folder / "our.engine").write_bytes(b"an engine")
    printed = run(folder, *python(SAVE, 1_000_000))
    assert printed == "'our.engine' cannot be written: File too large\n[]\n"
    assert (folder / "our.engine").read_bytes() == b"an engine"
    assert sorted(each.name for each in folder.iterdir()) == ["disk", "m.onnx", "our.engine"]


def test_a_full_disk_keeps_the_older_artifact(folder: Path) -> None:
    mounted = [*_DISK, _MOUNT, "sh", *python(CONVERT)]
    try:
        printed = run(folder, *mounted)
    except (FileNotFoundError, subprocess.CalledProcessError) as err:
        if isinstance(err, subprocess.CalledProcessError) and err.returncode not in (1, 77):
            raise
        pytest.skip("this system lets nobody but root mount a small disk")
    assert printed == failure(folder, "No space left on device")


def failure(folder: Path, reason: str) -> str:
    return f'the artifact "{folder}/disk/out" cannot be written: {reason}\n[]\n'
