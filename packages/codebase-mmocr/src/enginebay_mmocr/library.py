"""mmocr, the library of the models in this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ModelSourceError
from enginebay_openmmlab import Library

if TYPE_CHECKING:
    from mmengine.config import Config

DETECTION, RECOGNITION = "TextDetection", "TextRecognition"

MMOCR = Library(
    name="mmocr",
    fork="mmocr",
    base="mmengine.model.BaseModel",
    noun="text detector or recogniser",
    example="model = dict(type='DBNet', …) or model = dict(type='CRNN', …)",
)


def find_task(config: Config, name: str) -> str:
    """Return the task of a config's model: ``TextDetection`` or ``TextRecognition``.

    Args:
        config: The config, from ``MMOCR.read_config``.
        name: The model's name, for messages.

    Raises:
        ModelSourceError: The model has another task, or is one of mmdet's.
    """
    from mmocr.models.textdet.detectors import SingleStageTextDetector
    from mmocr.models.textrecog.recognizers import EncoderDecoderRecognizer

    kind = config.model.type
    found = kind if isinstance(kind, type) else MMOCR.registry("MODELS").get(kind)
    if issubclass(found, SingleStageTextDetector):
        return DETECTION
    if issubclass(found, EncoderDecoderRecognizer):
        return RECOGNITION
    raise ModelSourceError(
        f"'{name}' is of type '{found.__name__}', not a {MMOCR.noun}", hint=MMOCR.expected
    )
