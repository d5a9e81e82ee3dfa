"""Weights that OpenMMLab published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.authors import take_weights
from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from torch import nn


def take_published(network: nn.Module, address: str | None, name: str) -> None:
    """Load the weights that OpenMMLab published, downloaded once; nothing in them is executed.

    Args:
        network: The classifier.
        address: Where they are; None where nowhere. The file's name ends with the first digits of
            its SHA-256, as OpenMMLab names them, and they are compared.
        name: What the user calls the model.

    Raises:
        ModelSourceError: There are none, they cannot be had or read, or do not fit.
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
        raise ModelSourceError(f"the weights at {address} cannot be had: {why}") from err
    take_weights(network, weights, address)
