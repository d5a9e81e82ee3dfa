"""A text detector of mmocr as a module with tensors as inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from mmocr.models.textdet.detectors import SingleStageTextDetector


class Detector(nn.Module):
    """Module that returns the maps from which mmocr computes the outlines of texts.

    Args:
        network: The detector as mmocr builds it.
    """

    def __init__(self, network: SingleStageTextDetector) -> None:
        super().__init__()
        self.network = network

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # the name that MMDeploy's configs use
        """Compute the maps.

        Args:
            input: Normalised images, ``N×C×H×W float32``.

        Returns:
            The output of the head: of DBNet the probability of text, ``N×H×W float32``; of others
            several maps, ``N×maps×height×width float32``.
        """
        maps: Tensor = self.network(input)
        return maps
