"""Reads a recogniser's task (preprocessing and characters) from mmocr's config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay_openmmlab import read_normalisation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmocr.models.common.dictionary import Dictionary


def make_task(
    config: Mapping[str, Any], size: tuple[int, int, int], dictionary: Dictionary
) -> dict[str, object] | None:
    """Return a dict of the fields of a recogniser's task; None if no symbol ends or parts a text.

    Args:
        config: The recogniser's config.
        size: Channels, height and width of the input.
        dictionary: The recogniser's characters and special symbols, in the order of its scores.
    """
    is_ctc = dictionary.end_idx is None
    special = dictionary.padding_idx if is_ctc else dictionary.end_idx
    if special is None or size[0] not in (1, 3):
        return None
    # A padding symbol is no part of the text.
    names = ["" if i == dictionary.padding_idx else name for i, name in enumerate(dictionary.dict)]
    return {
        "type": "text-recognition",
        "image": _read_preprocessing(config, size),
        "classes": names[:special] + names[special + 1 :],
        "decoding": "ctc" if is_ctc else "attention",
        "special": special,
        "activation": "none",
    }


def _read_preprocessing(config: Mapping[str, Any], size: tuple[int, int, int]) -> dict[str, object]:
    channels, height, width = size
    steps = [{"type": "resize", "height": height, "width": width, "antialias": False}]
    if any(step["type"] == "PadToWidth" for step in config.get("test_pipeline", ())):
        steps[0]["fit"] = "contain"
        steps.append({"type": "crop", "height": height, "width": width, "at": "corner"})
    image = {"steps": steps, **read_normalisation(config)}
    return {**image, "channels": "L"} if channels == 1 else image
