"""An exhibit: a mistake of another project, in a small model of our own."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from torch import nn

from tests.verdicts.models import Function

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    #: What the wrong version computes, from the right module and its arguments.
    Mistake = Callable[..., Any]


class Exhibit(NamedTuple):
    """A mistake that gave wrong numbers and no error.

    Attributes:
        thread: ``owner/repository#number`` of the thread where it was reported or mended.
        fault: What went wrong.
        versions: Which versions had it, or when it was reported where the thread does not say.
        build: Returns the model and its example.
        mistake: What to plant; None where the installed versions still make it themselves.
        backend: The engine.
        exporter: The ONNX exporter; None for the engine's own way.
        culprit: The path of the module where it goes wrong.
        verdict: What Enginebay says: ``refused`` where it stops with an error, ``verified`` where
            it exports the model another way.
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
    """A model in which the culprit, ``piece``, has layers before and behind it."""
    middle = piece if isinstance(piece, nn.Module) else Function(piece)
    parts = {"stem": stem, "piece": middle, "head": head}
    return nn.Sequential(OrderedDict((name, part) for name, part in parts.items() if part))
