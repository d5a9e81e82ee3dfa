"""Downloads and loads the weights that OpenMMLab published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.authors.sources import take_weights
from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from torch import nn


def load_published(network: nn.Module, address: str | None, name: str) -> None:
    """Load OpenMMLab's published weights into a network.

    The file is downloaded once. Code in the file is not run.

    Args:
        network: The classifier.
        address: The URL of the weights; None without published weights. OpenMMLab's file names end
            with the first digits of the file's SHA-256; these digits are checked.
        name: The name of the model for error messages.

    Raises:
        ModelSourceError: There are no published weights, they cannot be downloaded or read, or they
            do not fit the network.
    """
    import torch

    if not address:
        raise ModelSourceError(
            f"'{name}' has no published weights",
            hint="set codebase_config.checkpoint to a local file, or use random weights",
        )
    try:
        weights: Any = torch.hub.load_state_dict_from_url(
            address, map_location="cpu", weights_only=True, check_hash=True, progress=False
        )
    except Exception as err:  # network, wrong hash, or pickles that torch rejects
        why = str(err).partition("\n")[0]
        raise ModelSourceError(f"the weights at {address} cannot be downloaded: {why}") from err
    take_weights(network, weights, address)
