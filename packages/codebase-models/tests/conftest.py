"""Shared fixtures: a short deploy function, and torchvision as it imports here."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from tests.torchvision_shim import import_torchvision

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

if find_spec("torchvision"):
    import_torchvision()


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
