"""Instance segmentation: finds the objects in an image, and the pixels of each object."""

from __future__ import annotations

from math import isfinite, log
from typing import TYPE_CHECKING, Literal, Self

import msgspec
import numpy as np

from enginebay.errors import InferenceError, UsageError
from enginebay_vision.detection import ObjectDetection
from enginebay_vision.drawing import paint_instances
from enginebay_vision.masks import cut_box_mask, cut_input_mask, cut_mask, locate_input
from enginebay_vision.model_checks import check_maps, find_spec
from enginebay_vision.outputs import read_channels_first, read_masks
from enginebay_vision.results import FoundInstances, Instance, InstanceMask
from enginebay_vision.task import Task
from enginebay_vision.truth.boxes import find_annotated_boxes
from enginebay_vision.truth.masks import read_coco_masks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as PilImage

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray
    from enginebay_vision.detection import Selection
    from enginebay_vision.truth.boxes import TrueBoxes

#: How far rounding in an engine may take a probability beyond 0 or 1.
_ROUNDING = 0.01
#: The axes of torchvision's masks, with a batch axis.
_CHANNEL = ("masks", "1N1hw")


class InstanceSegmentation(ObjectDetection, frozen=True, kw_only=True, tag="instance-segmentation"):
    """Instance segmentation: the model finds boxes around objects, and a mask for each box.

    The other attributes are those of :class:`ObjectDetection`.

    Attributes:
        masks: The output with a mask for each box of the output ``boxes``, of probabilities from 0
            to 1 or of bools; or the output with prototypes of masks.
        mask_form: ``box``: ``N×h×w`` or ``N×1×h×w``, where a mask covers its box, as in Mask R-CNN
            before its masks are pasted into the image. ``image``: the same with a value for each
            pixel of the network's input, as from torchvision's Mask R-CNN, or RTMDet-Ins.
            ``prototypes``: ``1×k×h×w``, which cover the input, and the last ``k`` columns of
            ``boxes`` are coefficients, as in the segmentation models of ultralytics: a mask is the
            sigmoid of the sum of ``coefficient · prototype``, inside of its box.
        mask_threshold: The smallest probability of an object's pixels.

    Example:
        >>> from enginebay_vision import ImageInput
        >>> task = InstanceSegmentation(image=ImageInput(), classes=("cat", "dog"))
        >>> outputs = {"boxes": np.array([[1.0, 0, 3, 2]]), "scores": np.array([0.9])}
        >>> outputs |= {"labels": np.array([1]), "masks": np.ones((1, 28, 28))}
        >>> found = task.postprocess(outputs, size=(4, 3))
        >>> found[0].name, found[0].area
        ('dog', 4)
        >>> found.array.astype(int)
        array([[[0, 1, 1, 0],
                [0, 1, 1, 0],
                [0, 0, 0, 0]]])
    """

    masks: str = "masks"
    mask_form: Literal["box", "image", "prototypes"] = "box"
    mask_threshold: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.masks:
            raise UsageError("'masks' is empty; expected the name of the output with the masks")
        if not 0 < self.mask_threshold < 1:
            raise UsageError(
                f"'mask_threshold' is {self.mask_threshold:g}; expected a number above 0 and below "
                "1"
            )

    def fit(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Self:
        """Return a copy of the task; empty names and dtypes are replaced by the model's.

        Raises:
            UsageError: The task does not fit the model.
        """
        masks = find_spec(self.masks, outputs, "output")
        if masks.dims is not None:  # the rank is known
            if self.mask_form == "prototypes":
                check_maps(masks, masks.dims, ("prototypes", "1khw"))
            else:
                check_maps(masks, masks.dims, ("masks", "Nhw"), ("masks", "1Nhw"), _CHANNEL)
            if self.image.size is not None:
                self._check_size(masks.dims[-2:], self.image.size, masks.describe(), UsageError)
        return super().fit(inputs, outputs)

    def count_extra_columns(self, outputs: Sequence[TensorSpec]) -> int | None:
        """Return the number of a mask's coefficients; None if it is unknown."""
        if self.mask_form != "prototypes":
            return 0
        count = (find_spec(self.masks, outputs, "output").dims or ("any",) * 4)[1]
        return count if isinstance(count, int) else None

    def _check_size(
        self,
        found: tuple[int | str, ...],
        size: tuple[int, int],
        output: str,
        error: type[UsageError | InferenceError],
    ) -> None:
        """Check the height and width of masks, if known, for those of the network's input."""
        if self.mask_form == "prototypes" or not all(isinstance(length, int) for length in found):
            return
        if (found == size) != (self.mask_form == "image"):
            wanted, other = ("with", "box") if found != size else ("that do not have", "image")
            raise error(
                f"mask_form '{self.mask_form}' expects masks {wanted} the input's size, "
                f"{size[0]}x{size[1]}, but the output is {output}",
                hint=f"set mask_form='{other}' in the task",
            )

    def find_items(self, path: Path) -> Sequence[tuple[Path, object]]:
        """Return pairs (image file, annotated masks); without a COCO file, (image file, None)."""
        masks = find_annotated_boxes(path, self.classes, read_coco_masks)
        return Task.find_items(self, path) if masks is None else masks

    def read_truth(self, image: PilImage, annotation: TrueBoxes) -> tuple[PilImage, TrueBoxes]:
        """Return the image, and the boxes, classes and masks of its objects."""
        masks = [mask.encode(image.size) for mask in annotation.masks]
        return image, annotation._replace(masks=masks)

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> FoundInstances:
        """Return the detected objects, the highest score first.

        Returns:
            The objects with their boxes. The attribute ``masks`` has the mask of each object in a
            rectangle of the image, and ``array`` those of the whole image, ``n×H×W bool``.
        """
        if self.mask_form == "prototypes":
            prototypes = read_channels_first(outputs, self.masks, "NCHW")
            found = self.select_objects(outputs, size, extra=len(prototypes))
            masks = list(self._combine_prototypes(prototypes, size, found))
        else:
            found = self.select_objects(outputs, size)
            masks = list(self._cut_masks(outputs, size, found))
        boxes = self.make_boxes(found, size)
        rows = [
            Instance(**msgspec.structs.asdict(box), area=int(np.count_nonzero(mask.pixels)))
            for box, mask in zip(boxes, masks, strict=True)
        ]
        return FoundInstances(rows, masks, size)

    def paint_results(self, image: PilImage, results: FoundInstances) -> PilImage:
        """Return the image with masks, boxes, class names and scores."""
        return paint_instances(image, results)

    def _cut_masks(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int], found: Selection
    ) -> Iterator[InstanceMask]:
        """Yield the mask of each selected object."""
        values = read_masks(outputs, self.masks)
        if len(values) != len(found.extra):
            raise InferenceError(
                f"found {len(found.extra)} boxes and {len(values)} masks; expected equal numbers"
            )
        placed = self.image.place(*size)
        shape = f"'{self.masks}' with the shape {np.shape(outputs[self.masks])}"
        self._check_size(values.shape[1:], (placed.height, placed.width), shape, InferenceError)
        extent = locate_input(placed)
        for row, box in zip(found.rows, found.corners, strict=True):
            mask = self._check_values(values[row])
            if self.mask_form == "box":
                yield cut_box_mask(mask, box, size, self.mask_threshold)
            else:
                yield cut_input_mask(mask, extent, size, self.mask_threshold)

    def _combine_prototypes(
        self, prototypes: NumpyArray, size: tuple[int, int], found: Selection
    ) -> Iterator[InstanceMask]:
        """Yield the mask of each selected object, from its coefficients, in its box.

        Interpolated before the sigmoid, and cut at the box after it, as in ultralytics 8.4.
        """
        # The sigmoid of this sum is the threshold.
        threshold = log(self.mask_threshold / (1 - self.mask_threshold))
        extent = locate_input(self.image.place(*size))
        for coefficients, box in zip(found.extra[found.rows], found.corners, strict=True):
            sums = np.tensordot(coefficients.astype(np.float32), prototypes, 1)
            yield cut_mask(sums, extent, box, size, threshold)

    def _check_values(self, mask: NumpyArray) -> NumpyArray:
        low, high = float(mask.min()), float(mask.max())
        if not isfinite(low + high):
            raise InferenceError(f"output '{self.masks}' contains NaN or infinity")
        if low < -_ROUNDING or high > 1 + _ROUNDING:
            raise InferenceError(
                f"output '{self.masks}' has numbers from {low:g} to {high:g}; expected "
                "probabilities from 0 to 1",
                hint="add a sigmoid to the end of the model",
            )
        return mask
