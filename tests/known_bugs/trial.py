"""Deploys a model with a known bug as a user would, and bisects the wrong outputs."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

import enginebay as eb
import enginebay_lab as lab
from tests.planted_faults.faults import wrong_rewriter

from . import engines, exporters, optimisers

if TYPE_CHECKING:
    from .bug import KnownBug

#: The bugs by the kind of software with the bug.
BUGS_BY_SOFTWARE = {
    "exporters": exporters.BUGS,
    "graph optimisers": optimisers.BUGS,
    "engines": engines.BUGS,
}
#: Every bug by its thread.
BUGS: dict[str, KnownBug] = {
    each.thread: each for bugs in BUGS_BY_SOFTWARE.values() for each in bugs
}

#: Threads that are not in BUGS, with the reason; they are listed, and not counted.
ABSENT = {
    "pytorch/pytorch#80973": "asks for a tool that finds mismatches, and has none of its own",
    "pytorch/pytorch#110557": "its cause is not known; `dynamo_export` of torch 2.1 is gone",
    "pytorch/pytorch#168224": "its cause is not known; needs ResNet-50's weights and torch 2.9",
    "pytorch/pytorch#169178": "its cause is not known; needs ResNet-18's weights and torch 2.9",
    "onnx/optimizer#282": "its cause is not known; its models are an archive",
    "openvinotoolkit/openvino#30666": "its cause is not known; its model is an archive",
    "openvinotoolkit/openvino#33397": "its cause is not known; its model is an archive",
}


class Outcome(NamedTuple):
    """The outcome of a bug's deployments.

    Attributes:
        verdict: The verdict with the bug; ``refused`` after an error.
        named: The module that the bisection names, and its node.
        plain: The verdict without the planted bug; empty if none was planted.
        right: False if an artifact was verified and its outputs differ from the model's.
        seconds: The duration.
    """

    verdict: str
    named: tuple[str, str]
    plain: str
    right: bool
    seconds: float

    def keeps(self, bug: KnownBug) -> bool:
        """True if the bug is refused, and the same model without it is verified."""
        return self.right and self.verdict == bug.verdict and self.plain in ("", "verified")

    def names(self, bug: KnownBug) -> bool:
        """True if the bisection names the wrong module."""
        return self.verdict == "mismatched" and self.named[0] == bug.culprit


def deploy_bug(thread: str) -> Outcome:
    """Deploy the model with the bug, then without it if it was planted, and bisect."""
    start, bug = time.perf_counter(), BUGS[thread]
    torch.manual_seed(0)
    model, example = bug.build()
    model.eval()
    rewriters: list[eb.RewriterSet] = []
    plain, right, named = "", True, ("", "")
    with TemporaryDirectory(prefix="enginebay-known-bugs-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters warn about their own deprecation
        if bug.mistake is not None:
            plain, artifact = _deploy(bug, model, example, [], Path(folder) / "plain")
            right = plain != "verified" or _agrees(artifact, model, example)
            target = model.get_submodule(bug.culprit)
            rewriters = [wrong_rewriter(target, bug.mistake)]
        verdict, artifact = _deploy(bug, model, example, rewriters, Path(folder) / "wrong")
        if verdict == "verified":
            right = right and bug.mistake is None and _agrees(artifact, model, example)
        elif artifact is not None:
            found = lab.bisect(artifact, model, rewriters=rewriters)
            named = (found.module, found.node)
    return Outcome(verdict, named, plain, right, time.perf_counter() - start)


def _deploy(
    bug: KnownBug, model: torch.nn.Module, example: Any, rewriters: list[Any], folder: Path
) -> tuple[str, eb.Artifact | None]:
    try:
        deployment = eb.deploy(
            model,
            example,
            backend=bug.backend,
            work_dir=folder,
            dynamic=bug.dynamic,
            export=eb.ExportOptions(exporter=bug.exporter, rewriters=rewriters),
            verify=eb.VerifyOptions(allow_mismatch=True),
        )
    except eb.EnginebayError:
        return "refused", None
    return deployment.verdict, deployment.artifact


def _agrees(artifact: eb.Artifact | None, model: torch.nn.Module, example: Any) -> bool:
    """True if artifact and model agree on the example, compared without Enginebay's verdict."""
    assert artifact is not None
    with torch.no_grad(), eb.load(artifact) as wrapper:
        (found,) = wrapper({wrapper.input_names[0]: example}).values()
        return torch.allclose(found.double(), model(example).double(), rtol=1e-3, atol=1e-3)
