"""What stands between a model and each engine: ``preview`` lists it before anything is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.obstacles.preview_model import (
        BackendPreview as BackendPreview,
        Preview as Preview,
        preview as preview,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__, {"obstacles.preview_model": "BackendPreview Preview preview"}
)
