"""mmpose, the library of the models in this package."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from enginebay.errors import MissingDependencyError
from enginebay_openmmlab import Library

if TYPE_CHECKING:
    from types import ModuleType


class _Mmpose(Library):
    def load(self) -> ModuleType:
        """Import mmpose, and register its models; a hint names both commands that install it."""
        _replace_coco_tools()
        try:
            return super().load()
        except MissingDependencyError as err:
            # The extra has what mmpose imports: it requires chumpy, which pip cannot build.
            err.hint = f"{err.hint}, then pip install --no-deps mmpose"
            raise


def _replace_coco_tools() -> None:
    """Let mmpose import pycocotools where xtcocotools cannot be imported.

    Only mmpose's data sets use it, but they are imported with the models.
    """
    names = ("coco", "cocoeval", "mask")
    try:
        for name in names:
            import_module(f"xtcocotools.{name}")
    except Exception:  # noqa: BLE001  # its wheels are for NumPy 1, and it may be missing
        with suppress(ModuleNotFoundError):
            tools = {f".{name}": import_module(f"pycocotools.{name}") for name in names}
            for name, module in {"": import_module("pycocotools"), **tools}.items():
                sys.modules[f"xtcocotools{name}"] = module


MMPOSE = _Mmpose(
    name="mmpose",
    fork="mmpose",
    base="mmpose.models.pose_estimators.base.BasePoseEstimator",
    noun="pose estimator",
    example="model = dict(type='TopdownPoseEstimator', backbone=…, head=…)",
)
