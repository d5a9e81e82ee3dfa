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

_WANTED = (
    "expected a segmenter of mmseg: model = dict(type='EncoderDecoder', backbone=…, decode_head=…)"
)


def read_config(mmseg: ModuleType, name: str) -> Config:
    """Read a config of mmseg by name, or the config in a ``.py`` file.

    Args:
        mmseg: The imported package ``mmseg``.
        name: The name of a config file in mmseg's package, or a path.

    Raises:
        ModelSourceError: The config does not exist, cannot be read, or describes no segmenter.
    """
    path = Path(name)
    if not name.endswith(".py"):
        known = _list_configs(Path(mmseg.__path__[0]))
        if name not in known:
            raise ModelSourceError(
                f"mmseg {mmseg.__version__} has no model '{name}'",
                hint=_suggest_names(name, [*known]),
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
    _check_segmenter(config, name)
    return config


@cache
def _list_configs(folder: Path) -> dict[str, Path]:
    """Return the paths of the configs in mmseg's wheel, by their names."""
    files = sorted((folder / ".mim" / "configs").glob("*/*.py"))
    # The folder _base_ has incomplete configs, from which others inherit.
    return {file.stem: file for file in files if file.parent.name != "_base_"}


def _suggest_names(name: str, known: list[str]) -> str | None:
    """Return a hint with the names that start with ``name``; if there are none, similar names."""
    close = [other for other in known if other.startswith(name)][:3]
    close = close or get_close_matches(name, known, n=3, cutoff=0.5)
    return f"similar names: {', '.join(close)}" if close else None


def _check_segmenter(config: Mapping[str, Any], name: str) -> None:
    from mmseg.models.segmentors import EncoderDecoder
    from mmseg.registry import MODELS

    model: Any = config.get("model")
    if not hasattr(model, "get"):
        raise ModelSourceError(f"'{name}' contains no model", hint=_WANTED)
    kind = model.get("type")
    segmenter = kind if isinstance(kind, type) else MODELS.get(str(kind))
    text = getattr(kind, "__name__", kind)
    # The estimator of depth inherits from the segmenter, and returns no classes.
    if (
        segmenter is None
        or not issubclass(segmenter, EncoderDecoder)
        or segmenter.__name__ == "DepthEstimator"
    ):
        raise ModelSourceError(f"'{name}' is of type '{text}', not a segmenter", hint=_WANTED)


def read_image_size(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the channels, height and width of the images that a config trains with.

    These are crops. The size that a ``test_pipeline`` resizes to differs from image to image.

    Example:
        >>> read_image_size({"model": {"data_preprocessor": {"size": (512, 1024)}}})
        (3, 512, 1024)
    """
    model = config["model"]
    size = (model.get("data_preprocessor") or {}).get("size") or config.get("crop_size", 512)
    height, width = (size, size) if isinstance(size, int) else size
    return model.get("backbone", {}).get("in_channels", 3), height, width
