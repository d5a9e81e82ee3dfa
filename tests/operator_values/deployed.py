"""An operator on an engine, compared with PyTorch on inputs beyond its example."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

import enginebay as eb
from enginebay.errors import EnginebayError

from .operators import Apply

if TYPE_CHECKING:
    import torch

    from .operators import Operator


@dataclass(frozen=True)
class Found:
    """The outcome of an operator on an engine.

    Attributes:
        verdict: Its verdict; ``refused`` if the deployment failed.
        words: The error, or the warnings that limit the verdict.
        wrong: The first difference from PyTorch, by the inputs beyond the example.
    """

    verdict: str
    words: tuple[str, ...]
    wrong: dict[str, str]

    @property
    def fate(self) -> str:
        """The outcome as a heading of the table."""
        if self.verdict != "verified":
            return "refused"
        if not self.wrong:
            return "right"
        return "wrong in silence" if self.is_silent else "wrong, and told"

    @property
    def is_silent(self) -> bool:
        """True if the engine is wrong and the verdict has no warning."""
        return self.verdict == "verified" and bool(self.wrong) and not self.words


def deployed(operator: Operator, backend: str) -> Found:
    """Deploy an operator, and compare it on inputs beyond its example."""
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", eb.VerdictWarning)
        try:
            deployment = eb.deploy(
                Apply(operator.function),
                operator.example,
                backend=backend,
                work_dir=Path(folder) / "artifact",
                verify=eb.VerifyOptions(allow_unverified=True),
            )
        except EnginebayError as err:
            return Found("refused", (str(err),), {})
        with eb.load(deployment.artifact) as wrapper:
            found = {
                label: _difference(operator, wrapper, inputs)
                for label, inputs in operator.beyond.items()
            }
    wrong = {label: text for label, text in found.items() if text}
    return Found(deployment.verdict, deployment.verification.warnings, wrong)


def _difference(operator: Operator, wrapper: eb.Wrapper, inputs: tuple[torch.Tensor, ...]) -> str:
    """Return the first difference; empty if equal, or if either side refuses the inputs."""
    given = dict(zip(wrapper.input_names, (x.numpy() for x in inputs), strict=True))
    try:
        wanted = operator.function(*inputs).numpy()
    except (RuntimeError, IndexError):
        return ""
    try:
        (found,) = wrapper(given).values()
    except EnginebayError:
        return ""
    if wanted.dtype.kind in "biu":
        same = found == wanted
    else:
        with np.errstate(all="ignore"):
            same = np.isclose(found, wanted, rtol=1e-3, atol=1e-9, equal_nan=True)
    return "" if same.all() else f"{wanted[~same][0]} became {found[~same][0]}"
