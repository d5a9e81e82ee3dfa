"""Decisions that few inputs take: experts, codes, classes, labels, exits, suppression."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from .plant import ENGINES, Plant, normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


CHOICES, LABELS, WIDTH = 8, 20, 8
#: Sixteen rows, and the scores of eight choices. The last has so low a score that few rows take it.
ROWS = normal(16, WIDTH, seed=11)
WEIGHT = torch.linalg.qr(normal(WIDTH, CHOICES, seed=12)).Q
BIAS = torch.tensor([0.0] * (CHOICES - 1) + [-2.1])
EXPERTS = normal(CHOICES, WIDTH, WIDTH, seed=13) / 3
TABLE = normal(CHOICES, WIDTH, seed=14)


def _towards(direction: Tensor) -> Tensor:
    """The farthest row in this direction within the range of the example."""
    return direction * torch.minimum(-ROWS.min(), ROWS.max()) / direction.abs().max()


#: Codes, of which the last is far from all others, and within the rows' range.
CODES = torch.cat([normal(CHOICES - 1, WIDTH, seed=19), 1.1 * _towards(WEIGHT[:, -1])[None]])
#: Rows within the example's range that take the last choice.
FAR = _towards(WEIGHT[:, -1]) * torch.linspace(0.9, 1, 16)[:, None]


def _normed(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def _scores(x: Tensor) -> Tensor:
    return _normed(x) @ WEIGHT + BIAS


def _best(x: Tensor) -> Tensor:
    return _scores(x).argmax(-1)


def _nearest(x: Tensor) -> Tensor:
    return (_normed(x)[:, None] - CODES).square().sum(-1).argmin(-1)


def _two_experts(x: Tensor, experts: Tensor) -> Tensor:
    values, places = _scores(x).topk(2)
    mixed = torch.einsum("bi,bkij->bkj", x, experts[places])
    return (torch.softmax(values, -1)[..., None] * mixed).sum(1)


#: Models with one of eight choices, from what a choice returns.
CHOSEN: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Tensor]] = {
    "an expert": (lambda x, of: torch.einsum("bi,bij->bj", x, of[_best(x)]), EXPERTS),
    "two experts": (_two_experts, EXPERTS),
    "a code": (lambda x, of: of[_nearest(x)], CODES),
    "a class": (lambda x, of: of[_best(x)], torch.arange(CHOICES)),
    "a class of raw scores": (lambda x, of: of[(x @ WEIGHT + 2 * BIAS).argmax(-1)], TABLE),
    "a class's prompt": (lambda x, of: x + of[_best(x)], TABLE),
    "a class's scale": (lambda x, of: x * of[_best(x)][:, None], torch.arange(CHOICES) / 4 + 1),
}
CHOICE_MISTAKES: dict[str, Callable[[Tensor], Tensor]] = {
    "the first for the eighth": lambda of: torch.cat([of[:-1], of[:1]]),
    "the seventh for the eighth": lambda of: torch.cat([of[:-1], of[-2:-1]]),
    "nothing for the eighth": lambda of: torch.cat([of[:-1], 0 * of[:1]]),
}


def choices() -> Iterator[Plant]:
    """Plants that are wrong for the last of eight choices."""
    for (use, (model, of)), (name, mistake) in itertools.product(
        CHOSEN.items(), CHOICE_MISTAKES.items()
    ):
        for engine in ENGINES if use == "an expert" else ENGINES[:1]:
            yield Plant(
                *("one of eight choices", f"{use}, {engine}", name),
                lambda x, model=model, of=of: model(x, of),
                lambda x, model=model, of=of, mistake=mistake: model(x, mistake(of)),
                *((ROWS,), (FAR,)),
                *({}, True, _counted(CHOICES), engine),
            )


def _counted(total: int) -> str:
    """What a sentence must match: some of this many choices, and no count of samples."""
    return rf"\b\d+ of {total}\b(?! (probe|sample|item))"


LABEL = 13
_LABEL_WEIGHT = functional.normalize(normal(WIDTH, LABELS, seed=16), dim=0) * 2
_LABEL_BIAS = torch.zeros(LABELS).index_fill(0, torch.tensor([LABEL]), -5.2)
#: The column that is least like this label's.
_OTHER = int((_LABEL_WEIGHT.T @ _LABEL_WEIGHT)[LABEL].argmin())
_LABEL_ROWS = _towards(_LABEL_WEIGHT[:, LABEL]) * torch.linspace(0.9, 1, 16)[:, None]
LABELLED: dict[str, Callable[[Tensor], Tensor]] = {
    "labels": lambda p: p > 0.5,
    "labels and no label": lambda p: torch.cat([p > 0.5, (p <= 0.5).all(-1, keepdim=True)], -1),
    "scores of labels": lambda p: torch.where(p > 0.5, p, 0),
    "counts of labels": lambda p: (p > 0.5).to(torch.int64).cumsum(0),
}
LABEL_MISTAKES: dict[str, Callable[[Tensor], Tensor]] = {
    "one column always false": lambda p: _replaced(p, torch.zeros_like(p[:, :1])),
    "one column only beside another": lambda p: _replaced(
        p, p[:, LABEL : LABEL + 1] * (p[:, _OTHER : _OTHER + 1] > 0.5)
    ),
}


def _probabilities(x: Tensor) -> Tensor:
    return torch.sigmoid(_normed(x) @ _LABEL_WEIGHT + _LABEL_BIAS)


def _replaced(p: Tensor, column: Tensor) -> Tensor:
    return torch.cat([p[:, :LABEL], column, p[:, LABEL + 1 :]], -1)


def labels() -> Iterator[Plant]:
    """Plants that are wrong for one of twenty labels."""
    for (use, model), (name, mistake) in itertools.product(
        LABELLED.items(), LABEL_MISTAKES.items()
    ):
        for engine in ENGINES if use == "labels" else ENGINES[:1]:
            yield Plant(
                *("one of twenty labels", f"{use}, {engine}", name),
                lambda x, model=model: model(_probabilities(x)),
                lambda x, model=model, mistake=mistake: model(mistake(_probabilities(x))),
                *((ROWS,), (_LABEL_ROWS,)),
                *({}, True, _counted(LABELS), engine),
            )


# -- sides -----------------------------------------------------------------------------------------

#: Conditions that few rows meet.
CONDITIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "a sure exit": lambda x: torch.softmax(_normed(x) @ WEIGHT, -1).amax(-1) > 0.66,
    "an even row": lambda x: _normed(x).mean(-1) > 0.92,
    "a far row": lambda x: (x - FAR[:1]).abs().amax(-1) < 0.6,
    "all positive": lambda x: (x * WEIGHT[:, 0].sign()).amin(-1) > 0.3,
}
SIDES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "where": lambda x, is_met: torch.where(is_met[:, None], x.cumsum(-1), x.flip(-1)),
    "a factor": lambda x, is_met: torch.tanh(x) * (1 + is_met.to(x.dtype))[:, None],
    "a mask": lambda x, is_met: x.masked_fill(is_met[:, None], -1),
}
_MET = {
    "a sure exit": _towards(WEIGHT[:, 0]),
    "an even row": torch.full((WIDTH,), 1.8),
    "a far row": FAR[0],
    "all positive": WEIGHT[:, 0].sign() * 1.2,
}


def sides() -> Iterator[Plant]:
    """Plants that never take the rarer side of a condition."""
    for (condition, is_met), (use, model) in itertools.product(CONDITIONS.items(), SIDES.items()):
        for engine in ENGINES if use == "where" else ENGINES[:1]:
            yield Plant(
                *("the rarer side", f"{use} of {condition}, {engine}", "never taken"),
                lambda x, is_met=is_met, model=model: model(x, is_met(x)),
                lambda x, is_met=is_met, model=model: model(x, is_met(x) & (x[:, 0] > 1e9)),
                *((ROWS,), (ROWS[::2].repeat_interleave(2, 0).lerp(_MET[condition], MOST),)),
                *({}, True, r"\b(decision|where|side|branch|condition|always|never)\b", engine),
            )


#: Every other row is the one that meets a condition.
MOST = torch.tensor([0.0, 1.0] * 8)[:, None]

# -- suppression -----------------------------------------------------------------------------------


def _overlap(boxes: Tensor) -> Tensor:
    """The intersection over union of boxes given by their corners."""
    low = torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
    high = torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    area = (boxes[..., 2:] - boxes[..., :2]).prod(-1)
    return shared / (area[:, :, None] + area[:, None] - shared)


def decode(x: Tensor, spread: float) -> Tensor:
    centre, size = x[..., :2] * spread, 2 + torch.sigmoid(x[..., 2:4])
    return torch.cat([centre - size / 2, centre + size / 2], -1)


def is_suppressed(x: Tensor, spread: float, *, by_class: bool = False) -> Tensor:
    score, boxes = x[..., 4], decode(x, spread)
    clash = (_overlap(boxes) > 0.5) & (score[:, None] > score[:, :, None])
    if by_class:
        clash = clash & ((x[..., 5] > 0)[:, None] == (x[..., 5] > 0)[:, :, None])
    return clash.any(-1)


#: What a detector does with the boxes that another box suppresses.
DETECTORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "scores": lambda x, lost: torch.sigmoid(x[..., 4]).masked_fill(lost, 0),
    "boxes": lambda x, lost: decode(x, 40).masked_fill(lost[..., None], -1),
    "counts": lambda x, lost: (~lost & (x[..., 4] > 0)).sum(-1) + x[:, 0, 4],
}
SUPPRESSION_MISTAKES: dict[str, Callable[[Tensor], Tensor]] = {
    "without suppression": lambda x: torch.zeros_like(x[..., 0]) > 0,
    "only of boxes of a class": lambda x: is_suppressed(x, 40, by_class=True),
}
BOXES = normal(1, 12, 6, seed=17)
#: Pairs of boxes that are nearly the same, of two classes.
_PAIRS = torch.cat([BOXES[:, :6], BOXES[:, :6] * torch.tensor([1, 1, 1, 1, 0.5, -1])], 1)


def suppression() -> Iterator[Plant]:
    """Plants whose boxes are not suppressed by others."""
    for (use, model), (name, mistake) in itertools.product(
        DETECTORS.items(), SUPPRESSION_MISTAKES.items()
    ):
        for engine in ENGINES if use == "scores" else ENGINES[:1]:
            yield Plant(
                *("suppression", f"{use}, {engine}", name),
                lambda x, model=model: model(x, is_suppressed(x, 40)),
                lambda x, model=model, mistake=mistake: model(x, mistake(x)),
                *((BOXES,), (_PAIRS,)),
                *({}, True, r"\b([Ss]uppress\w*|overlap\w*|decision|never|always)\b", engine),
            )
