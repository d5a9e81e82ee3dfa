"""Deploys a wrong pair as a user would, and returns the verdict."""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import enginebay as eb

from . import rewriters
from .models import Function

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from .kinds import Plant
    from .models import Case
    from .rewriters import Pair


def verdict_of_model(case: Case, backend: str) -> str:
    """Return the verdict on a model; ``refused`` if an exporter refuses it."""
    return _verdict(case.model, case.example, {"backend": backend})


def verdict_of_rewriter(pair: Pair, backend: str) -> str:
    """Return the verdict on a right model that a wrong rewriter changed."""
    return _planted(pair.right, pair.wrong, pair.example, {"backend": backend})


def verdict_of_plant(plant: Plant, backend: str) -> str:
    """Return the verdict on a plant, or on its right model if nothing is planted."""
    return _planted(plant.right, plant.wrong, plant.example, {"backend": backend, **plant.options})


def _planted(
    right: Callable[..., Any], wrong: Callable[..., Any], example: Any, options: dict[str, Any]
) -> str:
    planted = eb.RewriterSet(backend=options["backend"])
    planted.function(f"{rewriters.__name__}.current")(lambda ctx, *inputs: wrong(*inputs))
    rewriters.CURRENT[0] = right
    more = {**options, "export": {"rewriters": [planted]}} if wrong is not right else options
    return _verdict(Function(lambda *inputs: rewriters.current(*inputs)), example, more)


def _verdict(model: nn.Module, example: Any, options: dict[str, Any]) -> str:
    export = {"exporter": "torchscript", "ir": "onnx", **options.pop("export", {})}
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns of the data-dependent code of these models
        try:
            deployed = eb.deploy(
                model, example, work_dir=Path(folder) / "a", export=export, **options
            )
        except eb.NotVerifiedError as err:
            return str(err.verdict.verdict)
        except eb.EnginebayError:
            return "refused"
    return deployed.verdict
