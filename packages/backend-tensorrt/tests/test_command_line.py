"""The commands with TensorRT for RTX as it is: no stand-ins, and so no GPU."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import onnx
import pytest
from onnx_models import linear, slow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(no_stand_ins: dict[str, str], tmp_path: Path) -> Start:
    """Start ``enginebay`` in a folder of its own."""

    def run(*words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "enginebay", *words]
        return subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path, env=no_stand_ins
        )

    return run


def convert(model: str, *more: str) -> list[str]:
    return ["convert", "tensorrt-rtx", model, "--work-dir", "out", *more]


def refused(path: Path) -> None:
    model = onnx.load(linear(path))
    model.graph.node.add(op_type="Unique", name="unique", input=["y"], output=["u"])
    onnx.save(model, path)


def test_each_bad_input_is_a_one_line_error(start: Start, tmp_path: Path) -> None:
    linear(tmp_path / "m.onnx")
    refused(tmp_path / "refused.onnx")
    (tmp_path / "libcut.so").write_bytes(b"cut")
    cases: list[tuple[list[str], int, str]] = [
        (convert("refused.onnx"), 1, "Unique is not supported (node 'unique')"),
        (convert("m.onnx", "--plugins", "libcut.so"), 1, "libcut.so: file too short"),
        (convert("m.onnx", "--compute-capability", "current"), 3, "device cuda:0 cannot be used"),
        (convert("m.onnx", "--workspace-size", "1"), 1, "within workspace limit"),
        (convert("m.onnx", "--refit"), 3, "requires a GPU: this machine has no NVIDIA driver"),
    ]
    for words, code, text in cases:
        child = start(*words)
        printed, errors = child.communicate()
        lines = errors.splitlines()
        assert (child.returncode, printed) == (code, ""), (words, errors)
        assert lines[0].startswith("error: "), (words, errors)
        assert text in lines[0], (words, errors)
        assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: ")), errors
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".onnx"] * 2 + [".so"]


NET = """
import torch

class Det(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.det(x)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Det(), Det()

    def forward(self, x):
        return self.first(x) + self.second(x * 2)

def net():
    return Net().eval(), torch.randn(2, 3, 3)
"""


def test_the_preview_names_the_modules(start: Start, tmp_path: Path) -> None:
    """The parser's errors end with it: read afterwards, they ended the process."""
    (tmp_path / "net.py").write_text(NET)
    child = start("preview", "net.py:net", "--backend", "tensorrt-rtx")
    printed, errors = child.communicate()
    assert (child.returncode, errors) == (1, "")
    row = next(line for line in printed.splitlines() if line.startswith("tensorrt-rtx"))
    assert row.split()[1:4] == ["Det", "first,", "second"]
    assert "Det is not supported" in row


# -- builds that end before their end -------------------------------------------------------------

SLOW = convert(
    "slow.onnx",
    *("--min-shapes", "x:1x64x32x32", "--input-shapes", "x:2x64x32x32"),
    *("--max-shapes", "x:4x64x32x32"),
)
#: So many that a fast machine has work for seconds, too; a longer network would only make its steps
#: longer, and the builder notices Ctrl-C between two steps.
PROFILES = ",".join(
    f"x:{n}x64x32x32 / x:{n + 1}x64x32x32 / x:{n + 2}x64x32x32" for n in range(1, 33)
)


def building(start: Start, tmp_path: Path) -> Any:
    """Start a build of seconds and wait until the builder works."""
    slow(tmp_path / "slow.onnx", "n")
    child = start(*SLOW, "--profiles", PROFILES)
    while not list(tmp_path.glob(".out*/typed-*")):
        assert child.poll() is None, child.communicate()[1]
        time.sleep(0.05)
    time.sleep(0.3)
    assert child.poll() is None, "the build has ended already: it needs more profiles"
    return child


def test_ctrl_c_leaves_no_files(start: Start, tmp_path: Path, soon: int) -> None:
    child = building(start, tmp_path)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    printed, errors = child.communicate()
    assert time.monotonic() - sent < 5 * soon
    assert child.returncode == 130, (printed, errors)
    assert [path.name for path in tmp_path.iterdir()] == ["slow.onnx"]


def test_a_build_that_is_killed_is_built_again(start: Start, tmp_path: Path) -> None:
    child = building(start, tmp_path)
    child.kill()
    child.communicate()
    assert not (tmp_path / "out").exists()
    again = start(*SLOW)
    _, errors = again.communicate()
    assert again.returncode == 0, errors
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "slow.onnx"]


def test_two_builds_into_one_folder_do_not_mix(start: Start, tmp_path: Path) -> None:
    linear(tmp_path / "m.onnx")
    children = [start(*convert("m.onnx")) for _ in range(2)]
    ends = [(child.communicate()[1], child.returncode) for child in children]
    assert sorted(code for _, code in ends)[0] == 0, ends
    for errors, code in ends:
        assert code in (0, 2), ends
        assert len(errors.splitlines()) <= 2, ends
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "out"]
    shown = start("inspect", "out")
    assert shown.communicate()[1] == ""
    assert shown.returncode == 0
