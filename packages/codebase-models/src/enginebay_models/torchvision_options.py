"""``codebase_config`` of torchvision's detectors, which is checked without torchvision."""

from __future__ import annotations

from typing import Literal

from enginebay.authors.sources import Options


class DetectorOptions(Options, frozen=True, kw_only=True):
    """The keys of ``codebase_config`` for detectors.

    Attributes:
        model_type: ``end2end`` for a detector with non-maximum suppression.
    """

    model_type: Literal["end2end"] | None = None
