"""Deploys a wrong pair as a user would, and returns the verdict."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import enginebay as eb

from . import models
from .models import Case, Function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .plant import Plant
    from .rewriters import Pair

#: The names of the inputs of a plant.
INPUTS = ("x", "other", "third")


def verdict_of_model(case: Case, backend: str) -> str:
    """Return the verdict on a model; ``refused`` if an exporter refuses it, or ``told``."""
    result = _deploy(case, {"backend": backend, **case.options})
    return result if isinstance(result, str) else result.verdict


def verdict_of_rewriter(pair: Pair, backend: str) -> str:
    """Return the verdict on a right model that a wrong rewriter changed."""
    return verdict_of_model(_planted(pair.right, pair.wrong, pair.example, {}), backend)


def verdict_of_plant(plant: Plant) -> str:
    """Return the verdict on a plant, or on its right model if nothing is planted.

    A verdict is ``told`` if it is ``verified`` and one of its sentences names what is wrong.
    """
    case = _planted(plant.right, plant.wrong, plant.example, plant.options)
    result = _deploy(case, {"backend": plant.backend, **case.options})
    if isinstance(result, str):
        return result
    is_told = plant.told and any(
        re.search(plant.told, text) for text in _limits(plant, result.verification)
    )
    return "told" if is_told and plant.name else result.verdict


def _limits(plant: Plant, verification: eb.Verification) -> Iterator[str]:
    """Yield what a verdict says it has not seen, also of inputs beyond the verified range."""
    yield from verification.warnings
    if (basis := verification.basis) is None:
        return
    yield from basis.dropped
    if plant.beyond and basis.range is not None:
        yield from basis.range.find_beyond(dict(zip(INPUTS, plant.shown_by, strict=False)))


def _planted(
    right: Callable[..., Any], wrong: Callable[..., Any], example: Any, options: dict[str, Any]
) -> Case:
    if wrong is right:
        return Case(Function(right), example, options)
    planted = eb.RewriterSet()
    planted.function(f"{models.__name__}.call")(lambda ctx, right, *inputs: wrong(*inputs))
    return Case(Function(right), example, {**options, "export": {"rewriters": [planted]}})


def _deploy(case: Case, options: dict[str, Any]) -> eb.Deployment | str:
    """Return the verified deployment, or the other verdict."""
    export = {"exporter": "torchscript", "ir": "onnx", **options.pop("export", {})}
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns of the data-dependent code of these models
        try:
            return eb.deploy(
                *(case.model, case.example),
                work_dir=Path(folder) / "a",
                export=export,
                **options,
            )
        except eb.EnginebayError as err:
            if case.told and re.search(case.told, f"{err} {err.hint}"):
                return "told"
            return str(err.verdict.verdict) if isinstance(err, eb.NotVerifiedError) else "refused"
