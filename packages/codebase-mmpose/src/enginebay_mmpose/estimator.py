"""Pose estimators of mmpose as modules with tensors as inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from enginebay_mmdet import nms

if TYPE_CHECKING:
    from mmpose.models.pose_estimators.base import BasePoseEstimator


class Estimator(nn.Module):
    """Module that returns what the head of a top-down estimator computes for each point.

    Args:
        network: The estimator as mmpose builds it.
    """

    def __init__(self, network: BasePoseEstimator) -> None:
        super().__init__()
        self.network = network

    def forward(self, input: Tensor) -> dict[str, Tensor]:  # noqa: A002  # the name that MMDeploy's configs use
        """Estimate the points of the body in each image.

        Args:
            input: Normalised images, ``N×C×H×W float32``.

        Returns:
            Of a SimCC head ``simcc_x`` and ``simcc_y``, the scores of each horizontal and vertical
            position, ``N×K×bins float32``. Of other heads ``output``: heatmaps, ``N×K×h×w``, or
            coordinates, ``N×K×2``.
        """
        head: Any = self.network.head
        found: Any = head(self.network.extract_feat(input))
        if isinstance(found, tuple):
            # Exporters do not infer these sizes: without them, a graph names the number of points
            # like a dynamic size.
            width, height = (int(size * head.simcc_split_ratio) for size in head.input_size)
            across, along = found
            shape = (input.shape[0], head.out_channels)
            return {
                "simcc_x": across.reshape(*shape, width),
                "simcc_y": along.reshape(*shape, height),
            }
        # A head with several stages returns the heatmaps of each.
        return {"output": found[-1] if isinstance(found, list) else found}


class PeopleFinder(nn.Module):
    """Module that returns mmpose's prediction for several people, computed for all images at once.

    In mmpose, the number of people depends on the image. Here a box that mmpose drops gets a score
    of 0, so that all shapes are fixed.

    Args:
        network: The one-stage estimator as mmpose builds it.
        rows: The number of people for each image, padding included.
    """

    def __init__(self, network: Any, rows: int) -> None:
        super().__init__()
        self.network = network
        self.rows = rows

    def forward(self, input: Tensor) -> dict[str, Tensor]:  # noqa: A002  # MMDeploy's name
        """Find people and their points.

        Args:
            input: Normalised images, ``N×C×H×W float32``.

        Returns:
            ``dets``, ``N×rows×5 float32``: left, top, right and bottom in pixels of the input, and
            the score; and ``keypoints``, ``N×rows×K×3 float32``: x, y and score. The best come
            first; padding is 0.
        """
        head, test = self.network.head, self.network.head.test_cfg
        maps = head(self.network.extract_feat(input))
        sizes = [level.shape[2:] for level in maps[0]]
        priors = torch.cat(
            head.prior_generator.grid_priors(sizes, input.dtype, input.device, with_stride=True)
        )
        grid, stride = priors[:, :2], priors[:, 2]
        flat = [head._flatten_predictions(level) for level in maps]
        if hasattr(head, "dcc"):
            classes, deltas, _, seen, vectors = flat
            scores = classes.sigmoid()
        else:
            classes, objects, deltas, offsets, seen = flat
            scores = classes.sigmoid() * objects.sigmoid()
        scores = scores.amax(2)
        scores = torch.where(scores > test.score_thr, scores, 0)
        boxes = head.decode_bbox(deltas, grid, stride)
        rows = min(self.rows, scores.shape[1])
        mask = nms.select_boxes(boxes, scores, test.nms_thr, rows)
        best, indices = (scores * mask).topk(rows)

        def pick(values: Tensor) -> Tensor:
            return values.gather(1, indices[..., None].expand(-1, -1, values.shape[2]))

        boxes, seen = pick(boxes), pick(seen).sigmoid()
        if hasattr(head, "dcc"):
            points = self._decode(pick(vectors), boxes, grid[indices])
        else:
            points = pick(head.decode_kpt_reg(offsets, grid, stride).flatten(2))
            points = points.reshape(*boxes.shape[:2], -1, 2)
        size = boxes.new_tensor([input.shape[3], input.shape[2]] * 2)
        boxes = torch.minimum(boxes.clamp(min=0), size)
        people = (best > 0)[..., None]  # not a row of padding
        dets = torch.cat([boxes, best[..., None]], 2) * people
        found = torch.cat([points, seen[..., None]], 3) * people[..., None]
        missing = self.rows - rows
        dets = nn.functional.pad(dets, (0, 0, 0, missing))
        found = nn.functional.pad(found, (0, 0, 0, 0, 0, missing))
        # Exporters do not infer these sizes: without them, a graph names each like a dynamic size.
        shape = (input.shape[0], self.rows)
        points = found.reshape(*shape, head.num_keypoints, 3)
        return {"dets": dets.reshape(*shape, 5), "keypoints": points}

    def _decode(self, vectors: Tensor, boxes: Tensor, grid: Tensor) -> Tensor:
        """Return the points of boxes, ``N×rows×K×2``, as of RTMO's head."""
        head = self.network.head
        centre = (boxes[..., 2:] + boxes[..., :2]) * 0.5
        extent = (boxes[..., 2:] - boxes[..., :2]) * head.bbox_padding
        around = torch.cat([centre, extent], 2)
        # The head takes the boxes of one image: those of all images are joined.
        joined = (part.flatten(0, 1) for part in (vectors, around, grid))
        points: Tensor = head.dcc.forward_test(*joined)
        return points.reshape(*boxes.shape[:2], -1, 2)
