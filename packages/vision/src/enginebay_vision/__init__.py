"""Images for Enginebay: tasks of image models, data sets of images, metrics and comparators.

::

    import enginebay_vision as vision

    task = vision.ImageClassification(image=vision.ImageInput(steps=(vision.Resize(32, 32),)))

Importing this module imports no submodule: a submodule is imported when its class is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors import lazy_names

if TYPE_CHECKING:
    from enginebay_vision.classification import ImageClassification as ImageClassification
    from enginebay_vision.depth import DepthEstimation as DepthEstimation
    from enginebay_vision.detection import ObjectDetection as ObjectDetection
    from enginebay_vision.image_input import ImageInput as ImageInput
    from enginebay_vision.image_to_image import ImageToImage as ImageToImage
    from enginebay_vision.instances import InstanceSegmentation as InstanceSegmentation
    from enginebay_vision.keypoints import KeypointDetection as KeypointDetection
    from enginebay_vision.results import (
        Box as Box,
        DepthRange as DepthRange,
        FoundInstances as FoundInstances,
        FoundMap as FoundMap,
        Instance as Instance,
        InstanceMask as InstanceMask,
        Keypoint as Keypoint,
        MadePicture as MadePicture,
        RankedClass as RankedClass,
        Segment as Segment,
        Text as Text,
    )
    from enginebay_vision.segmentation import SemanticSegmentation as SemanticSegmentation
    from enginebay_vision.steps import (
        Crop as Crop,
        Resize as Resize,
    )
    from enginebay_vision.suppression import Suppression as Suppression
    from enginebay_vision.text import TextRecognition as TextRecognition

__version__ = "0.1.0"


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "classification": "ImageClassification",
        "depth": "DepthEstimation",
        "detection": "ObjectDetection",
        "results": "Box DepthRange FoundInstances FoundMap Instance InstanceMask Keypoint "
        "MadePicture RankedClass Segment Text",
        "image_to_image": "ImageToImage",
        "image_input": "ImageInput",
        "instances": "InstanceSegmentation",
        "keypoints": "KeypointDetection",
        "segmentation": "SemanticSegmentation",
        "steps": "Crop Resize",
        "suppression": "Suppression",
        "text": "TextRecognition",
    },
)
