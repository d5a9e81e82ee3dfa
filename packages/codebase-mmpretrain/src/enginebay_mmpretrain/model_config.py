"""Reads a model's config by name or path, checks the config, and sets the image size."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import ModuleType

    from mmengine.config import Config

_T = TypeVar("_T")

_WANTED = "expected an image classifier: model = dict(type='ImageClassifier', backbone=…, head=…)"


def read_config(mmpretrain: ModuleType, name: str) -> tuple[Config, str | None]:
    """Read a config of mmpretrain by name, or the config in a ``.py`` file.

    Args:
        mmpretrain: The imported package ``mmpretrain``.
        name: One of ``mmpretrain.list_models()``, or a path.

    Returns:
        The config, and the URL of the published weights, or None without published weights.

    Raises:
        ModelSourceError: The config does not exist, or mmengine cannot read it.
    """
    if name.endswith(".py"):
        if not Path(name).is_file():
            raise ModelSourceError(f"no file '{name}'")
        config = _load_config(lambda: _read_file(name), name)
        return config, config.get("load_from")
    known = mmpretrain.list_models()
    if name.lower() not in known:
        raise ModelSourceError(
            f"mmpretrain has no model '{name}'", hint=_suggest_names(name, known)
        )
    entry = _load_config(lambda: mmpretrain.ModelHub.get(name), name)
    return entry.config, entry.weights


def _suggest_names(name: str, known: Sequence[str]) -> str:
    """Return a hint with the names that start with ``name``; if there are none, similar names."""
    # mmpretrain's names end with the training setup, which users often omit.
    close = [other for other in known if other.startswith(name.lower())][:3]
    close = close or get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    if not close:
        return "mmpretrain.list_models() returns all names"
    return f"similar names: {', '.join(close)}"


def _read_file(path: str) -> Config:
    from mmengine.config import Config

    return Config.fromfile(path)


def _load_config(reader: Callable[[], _T], name: str) -> _T:
    try:
        return reader()
    except Exception as err:  # the config is code
        why = str(err).partition("\n")[0]
        raise ModelSourceError(
            f"the config of '{name}' cannot be loaded: {type(err).__name__}: {why}"
        ) from err


def check_classifier(config: Mapping[str, Any], name: str) -> None:
    """Check that the model of a config is an image classifier.

    Raises:
        ModelSourceError: The config has no model, or its model is not a classifier with a head.
    """
    model: Any = config.get("model")
    if not hasattr(model, "get"):
        raise ModelSourceError(f"'{name}' contains no model", hint=_WANTED)
    kind = model.get("type")
    if not _is_classifier(kind):
        text = getattr(kind, "__name__", kind)
        raise ModelSourceError(f"'{name}' is of type '{text}', not a classifier", hint=_WANTED)
    if kind == "ImageClassifier" and not model.get("head"):
        raise ModelSourceError(f"'{name}' is a backbone without a head", hint=_WANTED)


def _is_classifier(kind: object) -> bool:
    from mmpretrain.models import BaseClassifier

    if not isinstance(kind, type):
        kind = _find_registered(str(kind))
    # Instead of a multimodal model, a function is registered, which raises.
    return isinstance(kind, type) and issubclass(kind, BaseClassifier)


def _find_registered(kind: str) -> object:
    """Return what mmpretrain registers under the name ``kind``, or None."""
    from mmpretrain.registry import MODELS

    return MODELS.module_dict.get(kind.removeprefix("mmpretrain."))


def read_image_size(config: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Return the channels, height and width of a config's test images; None if not specified.

    Example:
        >>> crop = [{"type": "ResizeEdge", "scale": 256}, {"type": "CenterCrop", "crop_size": 224}]
        >>> read_image_size({"model": {"backbone": {}}, "test_pipeline": crop})
        (3, 224, 224)
    """
    backbone = config["model"].get("backbone", {})
    size = _read_crop_size(config.get("test_pipeline") or ()) or _parse_pair(
        backbone.get("img_size")
    )
    if size is None:
        return None
    width, height = size
    return backbone.get("in_channels", 3), height, width


def _read_crop_size(pipeline: Iterable[Mapping[str, Any]]) -> tuple[int, int] | None:
    """Return the width and height of the last ``Resize`` or crop transform; None if unknown."""
    size = None
    for transform in pipeline:
        kind = transform.get("type")
        if getattr(kind, "__name__", kind) == "Resize":
            size = _parse_pair(transform.get("scale"))
        elif "crop_size" in transform:
            size = _parse_pair(transform["crop_size"])
    return size


def _parse_pair(size: int | Sequence[int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    width, height = (size, size) if isinstance(size, int) else size
    return int(width), int(height)


def set_image_size(config: Config, size: tuple[int, int, int]) -> None:
    """Set the image size and channels in the backbone's config, if the backbone accepts them.

    Args:
        config: The config, which is changed.
        size: Channels, height and width of the image.
    """
    backbone = config.model.get("backbone", {})
    kind = backbone.get("type")
    if not isinstance(kind, type):
        kind = _find_registered(str(kind))
    parameters = inspect.signature(kind).parameters if kind else {}
    channels, height, width = size
    if "img_size" in parameters:
        backbone["img_size"] = height if height == width else (height, width)
    if "in_channels" in parameters:
        backbone["in_channels"] = channels
