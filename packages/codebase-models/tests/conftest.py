"""What these tests share: the libraries as they import here, and one deployment in a few words."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
import torch

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: The custom ops that torchvision registers fake kernels for while it is imported.
_OPS = ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")
_NMS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def _declare_ops() -> torch.library.Library:
    """Let torchvision's wheel import beside a CPU build of torch.

    Its compiled ops belong to a build with CUDA and do not load; their schemas are all that the
    import needs, and no model that is built here calls one.
    """
    ops = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        ops.define(f"{name}{_NMS}")
    for name in ("qroi_align", *_OPS, *(f"_{name}_backward" for name in _OPS)):
        ops.define(f"{name}(Tensor input) -> Tensor")
    return ops


def _imports() -> bool:
    try:
        import torchvision  # noqa: F401  # whether it imports is the question
    except RuntimeError:
        return False
    return True


_LIBRARY = None if _imports() else _declare_ops()


@pytest.fixture
def deploy(tmp_path: Path) -> Callable[..., eb.Deployment]:
    """Deploy a model by its name, with one thread."""
    numbers = count()

    def deploy(model: str, backend: str = "onnxruntime", **codebase: Any) -> eb.Deployment:
        config: dict[str, Any] = {"backend_config": {"type": backend}}
        if shape := codebase.pop("input_shape", None):
            config["onnx_config"] = {"input_shape": shape}
        if codebase:
            config["codebase_config"] = {"type": model.partition(":")[0], **codebase}
        return eb.deploy(model, config=config, work_dir=tmp_path / f"artifact_{next(numbers)}")

    return deploy
