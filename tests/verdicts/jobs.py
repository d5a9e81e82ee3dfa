"""The deployments of the session, wrong and right, and the setup of their processes."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.fork_server import fork_server
from tests.quick_torch import quicken_torch

from .engines import cases, hidden_cases, right_cases, verdict_of_engine
from .holders import UNREAD, USES, keepers
from .kinds import plants, right_models
from .models import MODELS
from .rewriters import pairs
from .right import right_cases_of_kinds
from .trial import verdict_of_model, verdict_of_plant, verdict_of_rewriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .models import Case

BACKEND = "onnxruntime"
#: The wrong models that are verified, and the right models that are not.
KNOWN = Path(__file__).parent / "known.json"


class Job(NamedTuple):
    """A deployment.

    Attributes:
        kind: The row of the table.
        name: Its name within the row.
        is_right: True if it must be verified, or its error tell why not; False if it must not be.
        verdict: Deploys the model and returns the verdict.
    """

    kind: str
    name: str
    is_right: bool
    verdict: Callable[[], str]

    @property
    def title(self) -> str:
        """The kind and the name, which no other job has."""
        return f"{self.kind}: {self.name}"


def _jobs() -> Iterator[Job]:
    for name, case in MODELS.items():
        yield Job("models that look at their data", name, False, _of(verdict_of_model, case))
    for pair in pairs():
        kind = f"wrong rewriters, {'right at the example' if pair.hidden else 'seen there'}"
        yield Job(kind, pair.name, False, _of(verdict_of_rewriter, pair))
    for is_right, uses in ((False, USES), (True, UNREAD)):
        for name, build in keepers(uses):
            # Built in its turn, since other models write into the same global.
            yield Job("state", name, is_right, partial(_verdict_of_new, build))
    for is_right, made in ((False, plants()), (True, right_models())):
        for plant in made:
            name = plant.title.removeprefix(f"{plant.kind}: ")
            yield Job(plant.kind, name, is_right, partial(verdict_of_plant, plant))
    for kind, name, build in right_cases_of_kinds():
        yield Job(kind, name, True, partial(_verdict_of_new, build))
    for kind, is_right, engines in (
        ("engines", False, cases()),
        ("engines", True, right_cases()),
        ("engines honest while verified", False, hidden_cases()),
    ):
        for name, method, case in engines:
            yield Job(kind, name, is_right, partial(verdict_of_engine, method, case))


def _of(verdict: Callable[..., str], case: object) -> Callable[[], str]:
    return partial(verdict, case, BACKEND)


def _verdict_of_new(build: Callable[[], Case]) -> str:
    return verdict_of_model(build(), BACKEND)


@cache
def all_jobs() -> list[Job]:
    """Return all jobs, in the same order in every process."""
    return list(_jobs())


def known() -> dict[str, str]:
    """Return the verdict by the title of each job whose wrong verdict is known."""
    verdicts: dict[str, str] = json.loads(KNOWN.read_text("utf-8"))
    return verdicts


_stack = ExitStack()


def prepare() -> None:
    """Make the processes and exports of deployments faster."""
    import torch.onnx

    torch.set_num_threads(1)
    _stack.enter_context(fork_server())
    quicken_torch()


def timed_verdict_of_job(number: int) -> tuple[str, float]:
    """Return the verdict on the job with this index in :func:`all_jobs`, and its seconds."""
    start = time.perf_counter()
    return all_jobs()[number].verdict(), time.perf_counter() - start
