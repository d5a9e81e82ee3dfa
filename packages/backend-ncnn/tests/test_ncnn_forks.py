"""ncnn runs in a forked process, although its OpenMP threads are not forked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from torch import nn, randn

import enginebay as eb

_FORK = """
import os, signal, sys
if sys.argv[2] == "torch":
    import torch  # ncnn then uses torch's OpenMP
import numpy as np, enginebay as eb

wrapper = eb.load(sys.argv[1])
x = {wrapper.input_names[0]: np.ones((1, 3, 32, 32), np.float32)}
(before,) = wrapper(x).values()
child = os.fork()
signal.alarm(600)
if child:
    (after,) = wrapper(x).values()
    sys.exit(os.waitpid(child, 0)[1] or not np.array_equal(before, after))
(after,) = eb.load(sys.argv[1])(x).values()
os._exit(not np.array_equal(before, after))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("first", ["ncnn", "torch"])
def test_an_artifact_runs_after_a_fork(tmp_path, first) -> None:
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3))
    out = tmp_path / "out"
    eb.deploy(model, randn(1, 3, 32, 32), backend="ncnn", params={"threads": 2}, work_dir=out)
    command = [sys.executable, "-W", "ignore", "-c", _FORK, str(out), first]
    subprocess.run(command, check=True)
