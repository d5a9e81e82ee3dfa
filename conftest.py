"""What the tests of every package share: usual signals, the pace of this machine, torchvision."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
import warnings
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import settings

# An example may take as long as a busy machine makes it.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# Under nohup, in the background of a shell and under some CI runners signals are ignored, and a
# child process inherits that. A handler is not inherited: children have the default again.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)  # the test run itself outlives its terminal


@pytest.fixture
def soon() -> int:
    """Whole seconds: ten times what a child process that imports Enginebay takes here and now.

    Limits that a test waits for are made of it. It is measured anew for each test, since the load
    of a machine changes while tests run.
    """
    from enginebay.testing.commands import environment

    start = time.monotonic()
    command = [sys.executable, "-c", "import enginebay.isolation"]
    subprocess.run(command, env=environment(), check=True)
    return math.ceil(10 * (time.monotonic() - start))


#: The custom ops that torchvision registers fake kernels for while it is imported.
_OPS = ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")
_NMS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def _import_torchvision() -> Any:
    """Let torchvision's wheel import beside a CPU build of torch.

    Its compiled ops belong to a build with CUDA and do not load; their schemas are all that the
    import needs, and no model that is built here calls one.
    """
    import torch

    try:
        import torchvision  # noqa: F401  # whether it imports is the question
    except RuntimeError:
        ops = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            ops.define(f"{name}{_NMS}")
        for name in ("qroi_align", *_OPS, *(f"_{name}_backward" for name in _OPS)):
            ops.define(f"{name}(Tensor input) -> Tensor")
        return ops


if find_spec("torchvision"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on a current torch
        _KEPT = _import_torchvision()
