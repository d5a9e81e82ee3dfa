"""Reads a model's config by name or path, and checks the config."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from mmengine.config import Config

_WANTED = "expected a detector of mmdet: model = dict(type='RetinaNet', backbone=…, bbox_head=…)"


def read_config(mmdet: ModuleType, name: str) -> Config:
    """Read a config of mmdet by name, or the config in a ``.py`` file.

    Args:
        mmdet: The imported package ``mmdet``.
        name: The name of a config file in mmdet's package, or a path.

    Raises:
        ModelSourceError: The config does not exist, cannot be read, or describes no detector.
    """
    path = Path(name)
    if not name.endswith(".py"):
        known = _list_configs(Path(mmdet.__path__[0]))
        if name not in known:
            raise ModelSourceError(
                f"mmdet has no model '{name}'", hint=_suggest_names(name, [*known])
            )
        path = known[name]
    elif not path.is_file():
        raise ModelSourceError(f"no file '{name}'")
    from mmengine.config import Config

    try:
        config = Config.fromfile(str(path))
    except Exception as err:  # the config is code
        why = str(err).partition("\n")[0]
        raise ModelSourceError(
            f"the config of '{name}' cannot be loaded: {type(err).__name__}: {why}"
        ) from err
    _check_detector(config, name)
    return config


@cache
def _list_configs(folder: Path) -> dict[str, Path]:
    """Return the paths of the configs in mmdet's wheel, by their names."""
    files = sorted((folder / ".mim" / "configs").glob("*/*.py"))
    # The folder _base_ has incomplete configs, from which others inherit.
    return {file.stem: file for file in files if file.parent.name != "_base_"}


def _suggest_names(name: str, known: list[str]) -> str | None:
    """Return a hint with the names that start with ``name``; if there are none, similar names."""
    close = [other for other in known if other.startswith(name)][:3]
    close = close or get_close_matches(name, known, n=3, cutoff=0.5)
    return f"similar names: {', '.join(close)}" if close else None


def _check_detector(config: Mapping[str, Any], name: str) -> None:
    from mmdet.models.detectors import BaseDetector
    from mmdet.registry import MODELS

    model: Any = config.get("model")
    if not hasattr(model, "get"):
        raise ModelSourceError(f"'{name}' contains no model", hint=_WANTED)
    kind = model.get("type")
    detector = kind if isinstance(kind, type) else MODELS.get(str(kind))
    if detector is None or not issubclass(detector, BaseDetector):
        text = getattr(kind, "__name__", kind)
        raise ModelSourceError(f"'{name}' is of type '{text}', not a detector", hint=_WANTED)


def read_image_size(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the channels, height and width of a config's test images after resizing and padding.

    Example:
        >>> resize = {"type": "Resize", "scale": (1333, 800), "keep_ratio": True}
        >>> read_image_size({"model": {}, "test_pipeline": [resize]})
        (3, 800, 1344)
    """
    sizes = [step["scale"] for step in config.get("test_pipeline", ()) if "scale" in step]
    width, height = sizes[-1] if sizes else (640, 640)
    divisor = config["model"].get("data_preprocessor", {}).get("pad_size_divisor", 32)
    return 3, -(-height // divisor) * divisor, -(-width // divisor) * divisor
