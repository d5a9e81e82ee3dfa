"""Weights that OpenMMLab published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.authors import take_weights
from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from torch import nn


def load_published(network: nn.Module, address: str | None, name: str) -> None:
    """Load the weights that OpenMMLab published, downloaded once; nothing in them is executed.

    Args:
        network: The classifier.
        address: Their URL; None if there are none. OpenMMLab ends a file's name with the first
            digits of its SHA-256, which are compared.
        name: The name that the user wrote for the model.

    Raises:
        ModelSourceError: There are none, they cannot be downloaded or read, or do not fit.
    """
    import torch

    if not address:
        raise ModelSourceError(
            f"'{name}' has no published weights",
            hint="codebase_config.checkpoint takes a local file; without either they are random",
        )
    try:
        weights: Any = torch.hub.load_state_dict_from_url(
            address, map_location="cpu", weights_only=True, check_hash=True, progress=False
        )
    except Exception as err:  # the network, the file's hash, and what torch refuses to unpickle
        why = str(err).partition("\n")[0]
        raise ModelSourceError(f"the weights at {address} cannot be downloaded: {why}") from err
    take_weights(network, weights, address)
