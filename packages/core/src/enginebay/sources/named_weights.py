"""Requests for weights in a model's name: ``timm:vit?pretrained``, ``net.py:Net?weights=FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from enginebay.errors import ModelSourceError

_PRETRAINED = "pretrained"
_FILE = "weights="


def split_weights(text: str) -> tuple[str, dict[str, Any]]:
    """Split a model's name at the ``?`` into the name of the model and options for its weights.

    Raises:
        ModelSourceError: The text after the ``?`` is not a request for weights.

    Example:
        >>> split_weights("timm:resnet18?pretrained")
        ('timm:resnet18', {'pretrained': True})
        >>> split_weights("net.py:Net?weights=best.pt")
        ('net.py:Net', {'checkpoint': 'best.pt'})
    """
    model, mark, request = text.partition("?")
    if not mark:
        return text, {}
    if request == _PRETRAINED:
        return model, {"pretrained": True}
    if file := request.removeprefix(_FILE) if request.startswith(_FILE) else "":
        return model, {"checkpoint": file}
    raise ModelSourceError(
        f"'{text}' ends with '?{request}'; expected ?{_PRETRAINED} or ?{_FILE}FILE",
        hint=f"{model}?{_PRETRAINED}",
    )


def name_weights(model: str, *, pretrained: bool = False, file: str = "") -> str:
    """Return a model's name with a request for weights; the path of ``file`` becomes absolute.

    Example:
        >>> name_weights("timm:resnet18", pretrained=True)
        'timm:resnet18?pretrained'
    """
    if file:
        # The name in a manifest must work in any folder.
        return f"{model}?{_FILE}{Path(file).absolute()}"
    return f"{model}?{_PRETRAINED}" if pretrained else model
