"""A bug of another project, in a small model."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from torch import nn

from tests.verdicts.models import Function

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    #: The computation of the wrong version, from the right module and its arguments.
    Mistake = Callable[..., Any]


class KnownBug(NamedTuple):
    """A bug with wrong outputs and no error.

    Attributes:
        thread: ``owner/repository#number`` of the thread where it was reported or fixed.
        fault: A description of the bug.
        versions: The versions with the bug, or the date of the report if they are unknown.
        build: Returns the model and its example.
        mistake: The wrong computation to plant; None if the installed versions still have the bug.
        backend: The engine.
        exporter: The ONNX exporter; None for the engine's own way.
        culprit: The path of the module where it goes wrong.
        verdict: Enginebay's verdict: ``refused`` if it ends with an error, ``verified`` if it
            exports the model in a different way.
        dynamic: The open sizes.
    """

    thread: str
    fault: str
    versions: str
    build: Callable[[], tuple[nn.Module, Any]]
    mistake: Mistake | None = None
    backend: str = "onnxruntime"
    exporter: str | None = "torchscript"
    culprit: str = "piece"
    verdict: Literal["mismatched", "refused", "verified"] = "mismatched"
    dynamic: dict[str, dict[int, str]] | None = None


def chain(
    piece: nn.Module | Callable[[Tensor], Tensor],
    *,
    stem: nn.Module | None = None,
    head: nn.Module | None = None,
) -> nn.Module:
    """A model in which the culprit, ``piece``, has layers before and after it."""
    middle = piece if isinstance(piece, nn.Module) else Function(piece)
    parts = {"stem": stem, "piece": middle, "head": head}
    return nn.Sequential(OrderedDict((name, part) for name, part in parts.items() if part))
