"""Attention masks in 8 bits: nodes whose values replace infinity stay in floating point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from enginebay.authors.arrays import NumpyArray

ENGINES = ("onnxruntime", "openvino")
LOWEST = torch.finfo(torch.float32).min
INT8 = {"precision": "int8"}


def fill(value: float) -> Callable[[Tensor], Tensor]:
    return lambda mask: torch.zeros_like(mask).masked_fill(mask == 0, value)


def slopes(mask: Tensor) -> Tensor:
    return fill(-torch.inf)(mask) - torch.arange(6.0) / 2


def causal(mask: Tensor) -> Tensor:
    return fill(-torch.inf)(mask) + torch.full((6, 6), -torch.inf).triu(1)


#: Form of a mask → what is added to the attention scores, for a mask with 1 for each key that is
#: there.
ADDED: dict[str, Callable[[Tensor], Tensor]] = {
    "infinity": fill(-torch.inf),
    "the lowest number": fill(LOWEST),
    "BERT's": lambda mask: (1.0 - mask) * LOWEST,
    "the first BERT's": lambda mask: (1.0 - mask) * -10000.0,
    "a sum": lambda mask: (mask + -1.0) * -LOWEST,
    "half precision's lowest": fill(-65504.0),
    "infinity and slopes": slopes,
    "infinity and causal": causal,
    "passed as it is": lambda mask: mask,
}
#: Form of a mask → what the caller passes; the mask itself if the form is not here.
PASSED: dict[str, Callable[[NumpyArray], NumpyArray]] = {
    "passed as it is": lambda mask: np.where(mask > 0, 0, -np.inf).astype(np.float32),
    "attention, bool": lambda mask: mask > 0,
    "attention, float": lambda mask: np.where(mask > 0, 0, LOWEST).astype(np.float32),
}
FORMS = (*ADDED, "attention, bool", "attention, float")


class Attention(nn.Module):
    def __init__(self, form: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.form = form
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 8)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        split = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        q, k, v = split
        mask = mask[:, None, None]
        if self.form in ADDED:
            scores = q @ k.transpose(-1, -2) / 8**0.5 + ADDED[self.form](mask)
            mixed = scores.softmax(-1) @ v
        else:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, mask)
        return self.out(mixed.transpose(1, 2).flatten(2))


def make_items(form: str) -> list[dict[str, NumpyArray]]:
    random = np.random.default_rng(0)
    items = []
    for _ in range(16):
        mask = (np.arange(6)[None] < random.integers(2, 7)).astype(np.float32)
        x = random.normal(size=(1, 6, 16)).astype(np.float32)
        items.append({"x": x, "mask": PASSED.get(form, lambda mask: mask)(mask)})
    return items


@pytest.mark.one_in(4)
@pytest.mark.filterwarnings(
    "ignore:.*columns never change:enginebay.VerdictWarning"
)  # no padding there
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", FORMS)
def test_the_sum_of_scores_and_a_mask_stays_in_float(
    form: str, engine: str, tmp_path: Path
) -> None:
    items = make_items(form)
    done = eb.deploy(
        Attention(form).eval(),
        tuple(torch.from_numpy(array) for array in items[0].values()),
        backend=engine,
        work_dir=tmp_path / "out",
        params=INT8,
        data=items,
    )
    kept = done.artifact.manifest.kept
    assert (done.verdict, done.verification.precision) == ("verified", "int8")
    assert kept
    assert all("add" in name.lower() or "sub" in name for name in kept)
    (note,) = done.notes
    verb = "stays" if len(kept) == 1 else "stay"
    start = f"{', '.join(kept)} {verb} in floating point, because values reach "
    assert note.startswith(start)
    assert note.endswith(", as in a mask: 8 bits have no steps for such a range")


@pytest.mark.parametrize("engine", ENGINES)
def test_zeros_are_no_reason_to_leave_8_bits(engine: str, tmp_path: Path) -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.again = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: Tensor, state: Tensor) -> Tensor:
            return self.first(x) + self.again(state)

    random = np.random.default_rng(0)
    zeros = np.zeros((4, 8), np.float32)
    items = [{"x": random.normal(size=(4, 8)).astype(np.float32), "state": zeros} for _ in range(8)]
    done = eb.deploy(
        Recurrent().eval(),
        tuple(torch.from_numpy(array) for array in items[0].values()),
        backend=engine,
        work_dir=tmp_path / "out",
        params=INT8,
        data=items,
    )
    assert (done.verdict, done.notes, done.artifact.manifest.kept) == ("verified", (), ())
