"""mmseg, the library of the models in this package."""

from __future__ import annotations

from enginebay_openmmlab import Library

MMSEG = Library(
    name="mmseg",
    fork="onedl-mmsegmentation",
    base="mmseg.models.segmentors.EncoderDecoder",
    noun="segmenter",
    example="model = dict(type='EncoderDecoder', backbone=…, decode_head=…)",
    # It inherits from the segmenter, and returns no classes.
    refused=("DepthEstimator",),
)
