"""Deploys a wrong pair as a user would, and returns the verdict."""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import enginebay as eb
from tests.flat_options import split_options

from . import rewriters
from .models import Function

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .models import Case
    from .rewriters import Pair


def verdict_of_model(case: Case, backend: str) -> str:
    """The verdict on a model that no engine can follow; ``refused`` where an exporter says so."""
    return _verdict(case.model, case.example, backend)


def verdict_of_rewriter(pair: Pair, backend: str) -> str:
    """The verdict on a right model that a wrong rewriter changed."""
    wrong = eb.RewriterSet(backend=backend)
    wrong.function(f"{rewriters.__name__}.current")(lambda ctx, x: pair.wrong(x))
    rewriters.CURRENT[0] = pair.right
    return _verdict(Function(lambda x: rewriters.current(x)), pair.example, backend, [wrong])


def _verdict(
    model: nn.Module, example: Tensor, backend: str, more: list[eb.RewriterSet] | None = None
) -> str:
    options: dict[str, Any] = {"backend": backend, "exporter": "torchscript", "ir": "onnx"}
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns of what these models do on purpose
        try:
            deployed = eb.deploy(
                model,
                example,
                work_dir=Path(folder) / "a",
                **split_options({**options, "rewriters": more or []}),
            )
        except eb.MismatchError as err:
            return str(err.verdict.verdict)
        except eb.EnginebayError:
            return "refused"
    return deployed.verdict
