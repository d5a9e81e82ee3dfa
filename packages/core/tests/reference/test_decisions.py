"""Decisions that no example takes: a search finds inputs that take them, or the verdict says so."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

import pytest
import torch
from packages.core.tests.planted_models import judge as judge_function
from torch import nn

import enginebay as eb
from enginebay.verdict import Basis, Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torch import Tensor

    Compute = Callable[[Tensor], Tensor]

pytestmark = pytest.mark.usefixtures("loopback")

ENGINE = "loopback"
RANDOM = torch.Generator().manual_seed(0)
GATE, RARE_BIAS = torch.randn(4, 8, generator=RANDOM), torch.zeros(8)
RARE_BIAS[7] = -3.0  # the last expert, class or label is rare
EXPERTS = torch.randn(8, 4, 4, generator=RANDOM)
WITHOUT_LAST = torch.cat([EXPERTS[:7], EXPERTS[:1]])
CODES = torch.randn(8, 4, generator=RANDOM)
CODES[7] *= 4
NEAR_CODES = torch.cat([CODES[:7], CODES[:1]])


def gate(x: Tensor) -> Tensor:
    return x @ GATE + RARE_BIAS


def outputs_of(experts: Tensor, x: Tensor) -> Tensor:
    return torch.einsum("bi,eij->bej", x, experts)


def loop(experts: Tensor) -> Compute:
    def run(x: Tensor) -> Tensor:
        chosen, total = gate(x).argmax(-1, keepdim=True), torch.zeros_like(x)
        for number in range(8):
            total = total + (chosen == number) * (x @ experts[number])
        return total

    return run


def top_two(experts: Tensor) -> Compute:
    def run(x: Tensor) -> Tensor:
        weights, chosen = gate(x).topk(2)
        spread = torch.zeros_like(gate(x)).scatter(-1, chosen, weights.softmax(-1))
        return (spread[..., None] * outputs_of(experts, x)).sum(1)

    return run


def gathered(experts: Tensor) -> Compute:
    def run(x: Tensor) -> Tensor:
        chosen = gate(x).max(-1).indices[:, None, None].expand(-1, 1, 4)
        return outputs_of(experts, x).gather(1, chosen)[:, 0]

    return run


def one_hot(experts: Tensor) -> Compute:
    def run(x: Tensor) -> Tensor:
        chosen = nn.functional.one_hot(gate(x).argmax(-1), 8).to(x.dtype)
        return (chosen[..., None] * outputs_of(experts, x)).sum(1)

    return run


def threshold(experts: Tensor) -> Compute:
    return lambda x: ((gate(x) > 0)[..., None] * outputs_of(experts, x)).sum(1)


def looked_up(experts: Tensor) -> Compute:
    return lambda x: (x[:, None] @ experts[gate(x).argmax(-1)])[:, 0]


def coded(codes: Tensor) -> Compute:
    return lambda x: codes[(x[:, None] - CODES).square().sum(-1).argmin(-1)] + 0 * x


def embedded(codes: Tensor) -> Compute:
    return lambda x: nn.functional.embedding(torch.cdist(x, CODES).argmin(-1), codes)


def exits(early: float) -> Compute:
    def run(x: Tensor) -> Tensor:
        certain = gate(x).softmax(-1).amax(-1, keepdim=True) > 0.9999
        return torch.where(certain, early * x, x @ EXPERTS[0])

    return run


def exits_together(early: float) -> Compute:
    return lambda x: torch.where(x.mean() > 2, early * x, x @ EXPERTS[0])


def overlaps(boxes: Tensor) -> Tensor:
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return shared / (areas[:, None] + areas - shared)


def boxes_of(x: Tensor) -> Tensor:
    return torch.cat([100 * x[:, :2], 100 * x[:, :2] + 1 + x[:, 2:].abs()], -1)


def fast_suppression(limit: float) -> Compute:
    def run(x: Tensor) -> Tensor:
        boxes = boxes_of(x)
        return boxes * (overlaps(boxes).triu(1).amax(0) <= limit)[:, None]

    return run


def masked_suppression(limit: float) -> Compute:
    def run(x: Tensor) -> Tensor:
        boxes = boxes_of(x)
        return boxes * ~(overlaps(boxes) > limit).triu(1).any(0)[:, None]

    return run


def labels(last: bool) -> Compute:
    return lambda x: (gate(2 * x).sigmoid() > 0.5) & torch.tensor([True] * 7 + [last])


def classes(last: int) -> Compute:
    return lambda x: gate(x).argmax(-1).clamp(max=last)


#: Operation → what makes the model, an argument for the right one, and one for the wrong one.
FAMILIES: dict[str, tuple[Callable[..., Compute], object, object]] = {
    **{
        f"experts, {make.__name__}": (make, EXPERTS, WITHOUT_LAST)
        for make in (loop, top_two, gathered, one_hot, threshold, looked_up)
    },
    "a far code, index": (coded, CODES, NEAR_CODES),
    "a far code, embedding": (embedded, CODES, NEAR_CODES),
    "an early exit of rows": (exits, 2.0, -1.0),
    "an early exit": (exits_together, 2.0, -1.0),
    "no suppression, fast": (fast_suppression, 0.5, 9.0),
    "no suppression, masks": (masked_suppression, 0.5, 9.0),
    "a label that is always False": (labels, True, False),
    "a class that is never returned": (classes, 7, 6),
}


class Model(nn.Module):
    def __init__(self, compute: Compute) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.compute(x), x.sum()


class Tokens(Model):
    def __init__(self, compute: Compute) -> None:
        super().__init__(compute)
        rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(2)) / 4
        self.table = nn.Embedding.from_pretrained(rows)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(self.table(x))


def judge(
    model: Model, compute: Compute, example: Tensor, engine: str, folder: Path
) -> eb.Verification:
    """Deploy a model in which a rewriter replaces ``compute``; return the verdict on it."""
    rewriters = eb.RewriterSet()

    def replaced(ctx: eb.RewriteContext, self: Model, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.table(x) if isinstance(self, Tokens) else x
        return compute(x), x.sum()

    rewriters.function(f"{__name__}.{type(model).__name__}.forward")(replaced)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eb.VerdictWarning)
        return eb.deploy(
            model,
            example,
            backend=engine,
            work_dir=folder,
            export=eb.ExportOptions(rewriters=[rewriters], exporter="torchscript"),
            verify=eb.VerifyOptions(allow_mismatch=True),
        ).verification


@pytest.mark.parametrize("family", FAMILIES)
def test_a_search_finds_the_decision_that_an_engine_lacks(family: str, tmp_path: Path) -> None:
    make, right, wrong = FAMILIES[family]
    model, example = Model(make(right)), torch.randn(3, 4, generator=RANDOM.manual_seed(1))
    verification = judge(model, make(wrong), example, ENGINE, tmp_path / "wrong")
    assert verification.verdict == "mismatched", verification
    verification = judge(model, make(right), example, ENGINE, tmp_path / "right")
    assert verification.verdict == "verified", verification
    assert verification.basis.limits() == ()


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_gradient_a_decision_that_no_sample_takes_is_a_limit(
    family: str, tmp_path: Path
) -> None:
    make, right, wrong = FAMILIES[family]
    model, ids = Tokens(make(right)), torch.tensor([0, 1, 2])
    verification = judge(model, make(wrong), ids, ENGINE, tmp_path / "wrong")
    assert verification.verdict == "mismatched" or verification.basis.limits(), verification
    verification = judge(model, make(right), ids, ENGINE, tmp_path / "right")
    assert verification.verdict == "verified"


def test_the_verdict_names_the_decisions_and_the_limit_of_each_place(tmp_path: Path) -> None:
    model = Tokens(loop(EXPERTS))
    verification = judge(model, loop(EXPERTS), torch.tensor([0, 1, 2]), "loopback", tmp_path)
    (decision,) = verification.basis.decisions
    place = decision.place
    assert place.startswith("reference/test_decisions.py:")
    assert dict(verification.fields())["decisions"] == f"3 of 8 choices ({place})"
    missing = ", ".join(decision.missing)
    limit = f"{place}: 5 of 8 choices occur in no sample ({missing}), {PASS} them"
    assert verification.basis.limits() == (limit,)
    with pytest.warns(eb.VerdictWarning, match="5 of 8 choices occur in no sample"):
        assert eb.verify(tmp_path).basis.decisions == (decision,)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("ending", ["pt", "pt2"])
def test_a_decision_of_a_file_is_named_by_its_operator(ending: str, tmp_path: Path) -> None:
    model, ids, file = Tokens(loop(EXPERTS)), torch.tensor([0, 1, 2]), tmp_path / f"model.{ending}"
    if ending == "pt":
        torch.jit.save(torch.jit.trace(model, ids), file)
    else:
        torch.export.save(torch.export.export(model, (ids,)), file)
    work_dir = tmp_path / "out"
    with pytest.warns(eb.VerdictWarning, match="^operator argmax: 5 of 8 choices occur"):
        verification = eb.deploy(str(file), ids, backend=ENGINE, work_dir=work_dir).verification
    assert [decision.place for decision in verification.basis.decisions] == ["operator argmax"]


def condition(number: int) -> Decision:
    return Decision(kind="condition", place=f"net.py:{number}", missing=("True",))


PASS = "so an engine that is wrong there would pass: pass an example, or --data, that takes"

#: A decision → its description, and the sentence about what no sample takes.
DESCRIBED = {
    Decision(kind="class", place="net.py:1", output="y", count=1000, taken=3, missing=("0", "2")): (
        "3 of 1,000 classes in 'y' (net.py:1)",
        f"output 'y': 997 of 1,000 classes occur in no sample (0, 2, …), {PASS} them",
    ),
    Decision(kind="row", place="net.py:1", count=3, taken=2, missing=("1",)): (
        "2 of 3 rows of a table (net.py:1)",
        f"net.py:1: 1 of 3 rows of a table occur in no sample (1), {PASS} it",
    ),
    condition(4): (
        "a condition never True (net.py:4)",
        f"net.py:4: a condition is never True in the samples, {PASS} it",
    ),
    Decision(kind="condition", place="net.py:4", count=3, taken=1): (
        "1 of 3 conditions (net.py:4)",
        f"net.py:4: 2 of 3 conditions never change, {PASS} them",
    ),
    Decision(kind="column", output="y", count=20, taken=19, missing=("13 is always False",)): (
        "19 of 20 columns in 'y'",
        f"output 'y': 1 of 20 columns never change (13 is always False), {PASS} it",
    ),
    Decision(kind="suppression", place="net.py:40"): (
        "suppression never (net.py:40)",
        f"net.py:40: no box is suppressed in any sample, {PASS} it",
    ),
    Decision(kind="choice", place="moe.py:12", count=8, taken=8): (
        "8 of 8 choices (moe.py:12)",
        "",
    ),
}


@pytest.mark.parametrize("decision", DESCRIBED, ids=lambda decision: decision.kind)
def test_a_decision_is_described_in_a_few_words(decision: Decision) -> None:
    assert (decision.describe(), decision.limit()) == DESCRIBED[decision]


def test_after_three_limits_the_other_places_share_one() -> None:
    *_, last = limits = Basis(decisions=tuple(map(condition, range(5)))).limits()
    assert len(limits) == 4
    assert last == (
        "no sample takes all of these either: a condition never True (net.py:3), a condition never "
        "True (net.py:4)"
    )


class Common(nn.Module):
    """A network with usual operators that decide: masks, steps, the best anchors, NaN tests."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 7)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        hidden = self.attention(x, src_key_padding_mask=mask == 0)
        hidden = torch.where(hidden > 0, hidden, 0.1 * hidden)
        hidden = torch.where(torch.isnan(hidden), torch.zeros_like(hidden), hidden)
        scores, boxes = self.head(hidden).split([3, 4], -1)
        best, anchors = scores.amax(-1).topk(10, -1)
        last = mask.sum(-1, keepdim=True) - 1
        pooled = hidden.gather(1, last[..., None].expand(-1, -1, 8))
        return best, boxes.gather(1, anchors[..., None].expand(-1, -1, 4)), pooled


def test_masks_activations_and_the_best_of_many_anchors_are_no_limits(tmp_path: Path) -> None:
    torch.manual_seed(0)
    example = (torch.randn(1, 60, 8), torch.ones(1, 60, dtype=torch.long))
    verification = eb.deploy(
        Common().eval(), example, backend="loopback", work_dir=tmp_path / "out"
    ).verification
    assert verification.basis.limits() == ()
    assert verification.basis.decisions == ()


def test_an_artifact_of_an_earlier_version_has_no_decisions(tmp_path: Path) -> None:
    model = Model(lambda x: x.argmax(-1))
    judge(model, model.compute, torch.eye(3), "loopback", tmp_path / "out")
    path = tmp_path / "out" / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    del manifest["verification"]["basis"]["decisions"]
    manifest["verification"]["basis"]["unchanging"] = ["output_0"]
    path.write_text(json.dumps(manifest), encoding="utf-8")
    assert eb.verify(tmp_path / "out").basis.decisions == ()


@pytest.fixture(scope="module")
def suppress() -> Iterator[Callable[[Tensor, Tensor, float], Tensor]]:
    """Torchvision's operator for boxes, with a simple implementation."""
    with torch.library._scoped_library("torchvision", "FRAGMENT") as library:
        if not hasattr(torch.ops.torchvision, "nms"):
            library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            library.impl("nms", keep_best, "CPU")
        yield torch.ops.torchvision.nms


def keep_best(boxes: Tensor, scores: Tensor, limit: float) -> Tensor:
    kept: list[int] = []
    for number in scores.argsort(descending=True).tolist():
        if all(overlaps(boxes)[number, other] <= limit for other in kept):
            kept.append(number)
    return torch.tensor(kept)


@pytest.mark.parametrize("distance", [60.0, 1e6])
def test_suppression_is_searched_for_and_told(
    suppress: Callable[[Tensor, Tensor, float], Tensor], distance: float, tmp_path: Path
) -> None:
    places = torch.arange(3.0)[:, None] * distance

    def detect(x: Tensor) -> Tensor:
        boxes = boxes_of(x) + places
        kept = torch.zeros(len(x), dtype=torch.bool)
        return boxes * kept.index_fill(0, suppress(boxes, x[:, 0], 0.5), True)[:, None]

    def keep_all(x: Tensor) -> Tensor:
        return boxes_of(x) + places

    example = torch.randn(3, 4, generator=RANDOM.manual_seed(1)) * 0.1
    verification = judge(Model(detect), keep_all, example, "loopback", tmp_path)
    if distance < 100:
        assert verification.verdict == "mismatched", verification
    else:
        (limit,) = verification.basis.limits()
        assert "no box is suppressed in any sample" in limit
        assert "suppression never" in dict(verification.fields())["decisions"]


FORMS: dict[str, Compute] = {
    "sorted": lambda x: outputs_of(EXPERTS, x).gather(
        1, gate(x).sort(-1, descending=True).indices[:, :1, None].expand(-1, -1, 4)
    ),
    "a class as a float": lambda x: gate(x).argmax(-1).to(x.dtype),
    "bins": lambda x: CODES[torch.bucketize(x[:, 0].contiguous(), torch.linspace(-90, 90, 7))],
    "rounded": lambda x: CODES[(x[:, 0].abs() + 4).round().long().clamp(max=7)],
    "a step": lambda x: x * (x.mean() - 1e3).sign(),
    "both": lambda x: torch.where((x[:, :1] > 3) & (x[:, 1:2] < -3), x, -x),
    "rounded output": lambda x: (
        (0 * x[:, :2] + x[:, 2:]).round().int() * torch.tensor([0, 1]).int()
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_decision_is_seen(form: str, tmp_path: Path) -> None:
    compute = FORMS[form]
    model, ids = Tokens(compute), torch.tensor([0, 1, 2])
    verification = judge(model, compute, ids, "loopback", tmp_path)
    assert verification.basis.limits(), verification.basis.decisions


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(("count", "picked"), [(8, 1), (48, 8), (128, 8)])
def test_a_lost_expert_of_many_is_caught_or_named(count: int, picked: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    gate, weights = torch.nn.Linear(16, count), torch.randn(count, 16, 4) / 4
    gate.bias.data[5] = -0.7

    def mix(x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        scores, chosen = gate(x).softmax(-1).topk(picked)
        each = torch.einsum("bd,bkdf->bkf", x, (weights * kept[:, None, None])[chosen])
        return (each * scores[..., None]).sum(1)

    kept = torch.ones(count)
    lost = kept.clone()
    lost[5] = 0
    example = (torch.randn(4, 16), torch.ones(4))
    found = judge_function(
        lambda x, other: mix(x, kept) * other[:, None],
        lambda x, other: mix(x, lost) * other[:, None],
        example,
        tmp_path,
    )
    assert found.verdict == "mismatched" or any("(5" in text for text in found.warnings)
