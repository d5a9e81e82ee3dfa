"""How a config normalises images, as fields of an image task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_normalisation(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the order of the channels and the normalisation of a model's ``data_preprocessor``.

    Example:
        >>> config = {"model": {"data_preprocessor": {"mean": [127.5], "bgr_to_rgb": True}}}
        >>> read_normalisation(config)
        {'channels': 'RGB', 'scale': 1.0, 'mean': [127.5], 'std': [1.0]}
    """
    settings = config["model"].get("data_preprocessor") or {}
    # mmpretrain has another key than all the others.
    is_rgb = settings.get("bgr_to_rgb") or settings.get("to_rgb")
    mean, std = (
        [*map(float, settings.get(key) or [usual])] for key, usual in (("mean", 0), ("std", 1))
    )
    return {"channels": "RGB" if is_rgb else "BGR", "scale": 1.0, "mean": mean, "std": std}
