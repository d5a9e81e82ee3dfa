"""Weights: published ones, or random ones that an engine can be held to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.codebase import take_weights
from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from torch import Tensor, nn


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


def settle_norms(network: nn.Module, images: Tensor) -> None:
    """Let batch normalisation measure some images.

    As it is built it measured none, and then the output of a deep network with random weights
    hardly depends on its input any more: MobileNet-V2's scores of two images are the same to
    five digits, and any engine that gets the last bias right would be verified.

    Args:
        network: The network, in evaluation mode, in which it stays.
        images: ``N×C×H×W float32``; more than one, since a norm behind pooling sees single values.
    """
    import torch
    from torch.nn.modules.batchnorm import _BatchNorm

    norms = [each for each in network.modules() if isinstance(each, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
        norm.train()
    with torch.no_grad():
        network(images)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()
