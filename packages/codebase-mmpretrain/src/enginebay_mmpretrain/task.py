"""Reads a classifier's task (preprocessing and classes) from mmpretrain's config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay_mmpretrain.library import MMPRETRAIN
from enginebay_mmpretrain.model_config import read_image_size
from enginebay_openmmlab import read_normalisation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mmpretrain.models import BaseClassifier

#: The filters that a task supports, by library: other filters of OpenCV differ from Pillow's.
_KERNELS = {"pillow": ("nearest", "bilinear", "bicubic", "lanczos"), "cv2": ("bilinear",)}


def classification_task(
    network: BaseClassifier, config: Mapping[str, Any], size: tuple[int, int, int] | None
) -> dict[str, object] | None:
    """Return a dict of the fields of a classifier's task; None if no task fits the config.

    Args:
        network: The classifier as mmpretrain builds it.
        config: The classifier's config.
        size: Channels, height and width of the input; None if the size is unknown.
    """
    steps = None if size is None else pipeline_steps(config, size)
    prepare = config["model"].get("data_preprocessor") or {}
    if not steps or prepare.get("pad_size_divisor", 1) > 1:
        return None
    count = getattr(getattr(network, "head", None), "num_classes", None)
    return {
        "type": "image-classification",
        "image": {
            "steps": steps,
            **read_normalisation(config),
        },
        "classes": MMPRETRAIN.read_class_names(config, count),
        "activation": "none",  # the classifier's outputs are probabilities
    }


def pipeline_steps(
    config: Mapping[str, Any], size: tuple[int, int, int]
) -> list[dict[str, object]] | None:
    """Convert a ``test_pipeline`` to a task's preprocessing steps; None if this is impossible.

    Example:
        >>> crop = [{"type": "ResizeEdge", "scale": 256}, {"type": "CenterCrop", "crop_size": 224}]
        >>> config = {"model": {"backbone": {}}, "test_pipeline": crop}
        >>> [(step["height"], step["width"]) for step in pipeline_steps(config, (3, 112, 224))]
        [(128, 256), (112, 224)]
    """
    original = read_image_size(config)
    if size[0] != 3 or original is None:
        return None
    steps: list[dict[str, object]] = []
    for transform in config.get("test_pipeline") or ():
        kind = transform.get("type")
        name = str(getattr(kind, "__name__", kind)).removeprefix("mmpretrain.")
        if name in ("LoadImageFromFile", "PackInputs"):
            continue
        step = _convert_step(name, transform, (size[1] / original[1], size[2] / original[2]))
        if step is None:
            return None
        steps.append(step)
    return steps


def _convert_step(
    name: str, transform: Mapping[str, Any], share: tuple[float, float]
) -> dict[str, object] | None:
    """Convert a transform of ``test_pipeline`` to a preprocessing step of a task.

    The step's height and width are multiplied by the factors ``share``. The result is None for a
    transform that no step can express.
    """
    if name == "CenterCrop" and not transform.get("auto_pad"):
        return {"type": "crop", **_scale_size(transform["crop_size"], share)}
    backend, kernel = (
        transform.get(key, usual)
        for key, usual in (("backend", "cv2"), ("interpolation", "bilinear"))
    )
    if kernel not in _KERNELS.get(backend, ()):
        return None
    options: dict[str, object] = {"interpolation": kernel, "antialias": backend == "pillow"}
    if name == "Resize" and not transform.get("keep_ratio") and "scale" in transform:
        return {"type": "resize", **_scale_size(transform["scale"], share), **options}
    if name == "ResizeEdge" and transform.get("edge", "short") == "short":
        size = _scale_size(transform["scale"], share)
        return {"type": "resize", **size, "fit": "cover", **options}
    return None  # rather than a task that is nearly right, as for EfficientNet's crop


def _scale_size(size: int | Sequence[int], share: tuple[float, float]) -> dict[str, int]:
    """Multiply a size by ``share``, the factors of height and width.

    ``size`` is ``(width, height)``, or one number for both.
    """
    width, height = (size, size) if isinstance(size, int) else size
    return {"height": round(height * share[0]), "width": round(width * share[1])}
