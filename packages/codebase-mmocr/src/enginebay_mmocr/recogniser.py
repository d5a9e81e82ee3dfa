"""A text recogniser of mmocr as a module with tensors as inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from mmocr.models.textrecog.recognizers import EncoderDecoderRecognizer


class Recogniser(nn.Module):
    """Module that returns the probability of each character at each position of a text.

    Args:
        network: The recogniser as mmocr builds it.
    """

    def __init__(self, network: EncoderDecoderRecognizer) -> None:
        super().__init__()
        self.network = network

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # the name that MMDeploy's configs use
        """Recognise the text of each image.

        Args:
            input: Normalised images of one line of text, ``N×C×H×W float32``.

        Returns:
            The probabilities, ``N×positions×characters float32``.
        """
        features = self.network.extract_feat(input)
        encoded = None
        if self.network.with_encoder:
            encoder = self.network.encoder
            encoded = encoder(features, _make_records(encoder))
        decoder = self.network.decoder
        texts: Tensor = decoder(features, encoded, _make_records(decoder))
        return texts


def _make_records(part: Any) -> list[object] | None:
    """Return mmocr's records of images without padding, as this part of a recogniser expects."""
    from mmocr.models.textrecog.decoders import NRTRDecoder, RobustScannerFuser
    from mmocr.models.textrecog.encoders import NRTREncoder

    # These mask the padding of each image that has a record. The others accept no records only.
    return [] if isinstance(part, NRTRDecoder | NRTREncoder | RobustScannerFuser) else None
