"""A segmenter of mmseg as a module with tensors as inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from mmseg.models.segmentors import EncoderDecoder


class Segmenter(nn.Module):
    """Module that returns the class of each pixel, or the scores, for the whole image at once.

    Args:
        network: The segmenter as mmseg builds it.
        with_argmax: False for the scores.
    """

    def __init__(self, network: EncoderDecoder, *, with_argmax: bool) -> None:
        super().__init__()
        self.network = network
        self.with_argmax = with_argmax

    @property
    def head(self) -> Any:
        """The head that computes the scores: the decode head, in a cascade the last one."""
        head = self.network.decode_head
        return head[-1] if isinstance(head, nn.ModuleList) else head

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # the name that MMDeploy's configs use
        """Classify each pixel.

        Args:
            input: Normalised images, ``N×C×H×W float32``.

        Returns:
            The class indices, ``N×1×H×W int64``; or the scores, as of ``compute_scores``.
        """
        scores = self.compute_scores(input)
        if not self.with_argmax:
            return scores
        if self.network.out_channels == 1:
            threshold: float = self.head.threshold
            return (scores.sigmoid() > threshold).long()
        return scores.argmax(1, keepdim=True)

    def compute_scores(self, images: Tensor) -> Tensor:
        """Return the scores of the head, resized to the images, ``N×classes×H×W float32``."""
        size = images.shape[2:]
        # The images are neither resized nor padded.
        meta = {"img_shape": size, "ori_shape": size, "pad_shape": size, "padding_size": [0] * 4}
        scores: Tensor = self.network.encode_decode(images, [meta])
        return scores
