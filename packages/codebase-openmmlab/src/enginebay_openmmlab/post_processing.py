"""The section ``post_processing`` of MMDeploy's configs for models that find objects or people."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from enginebay.errors import ModelSourceError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The keys in MMDeploy's configs, and whether they have an effect.
_KEYS = {
    "score_threshold": True,
    "iou_threshold": True,
    "keep_top_k": True,
    "confidence_threshold": False,
    "max_output_boxes_per_class": False,
    "pre_top_k": False,
    "background_label_id": False,
    "export_postprocess_mask": True,
}

_log = logging.getLogger("enginebay.openmmlab")


def check_post_processing(section: Iterable[str]) -> None:
    """Check the keys of ``post_processing``, and log the keys that have no effect.

    Raises:
        ModelSourceError: A key is not one of MMDeploy's keys.

    Example:
        >>> check_post_processing({"score_threshold": 0.05})
    """
    for key in section:
        if key not in _KEYS:
            raise ModelSourceError(
                f"codebase_config.post_processing: '{key}' is not a known key; available: "
                f"{', '.join(_KEYS)}",
                hint=did_you_mean(key, _KEYS),
            )
    if idle := [key for key in section if not _KEYS[key]]:
        _log.warning("codebase_config.post_processing: keys without effect: %s", ", ".join(idle))
