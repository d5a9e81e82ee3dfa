"""A classifier of mmpretrain as a module with tensors as inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from mmpretrain.models import BaseClassifier


class Classifier(nn.Module):
    """Module that returns mmpretrain's scores, with which the engine's scores are compared.

    Args:
        network: The classifier as mmpretrain builds it.
    """

    def __init__(self, network: BaseClassifier) -> None:
        super().__init__()
        self.network = network

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # the name that MMDeploy's configs use
        """Predict the scores.

        Args:
            input: Normalised images, ``N×C×H×W float32``.

        Returns:
            A score for each class, ``N×classes float32``.
        """
        return torch.stack([sample.pred_score for sample in self.network.predict(input)])
