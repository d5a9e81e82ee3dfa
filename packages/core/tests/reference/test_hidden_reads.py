"""Ways in which Python reads values, so that a tracer fixes a branch: a warning names the line."""

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

    Compute = Callable[[Tensor], Tensor]

pytestmark = [
    pytest.mark.usefixtures("loopback"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning"),
]

X = torch.linspace(-1, 2, 8).view(2, 4)


class Model(nn.Module):
    def __init__(self, function: Compute) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def later(x: Tensor) -> Tensor:
    found = x[x > 100]
    count = found.shape[0]
    if count == 7:
        x = x * 3
    return x + 1


def loop(x: Tensor) -> Tensor:
    for _ in (x > 5).nonzero()[7:]:
        x = x * 3
    return x + 1


#: Where a value is read, on which a branch depends that no probe takes → what is said of it.
NUMBER, SIZE = "a number that differs between samples", "a size that differs between samples"
READS: dict[str, tuple[Compute, str]] = {
    "a number": (lambda x: x * 3 if x.sum().item() == 7 else x + 1, NUMBER),
    "an integer": (lambda x: x * 3 if int((x > 0).sum()) == 77 else x + 1, NUMBER),
    "a list": (lambda x: x * 3 if x.tolist()[0][0] == 7 else x + 1, NUMBER),
    "numpy": (lambda x: x * 3 if x.detach().cpu().numpy().min() == 7 else x + 1, NUMBER),
    "asarray": (lambda x: x * 3 if np.asarray(x).min() == 7 else x + 1, NUMBER),
    "repr": (lambda x: x * 3 if "7.77" in repr(x) else x + 1, NUMBER),
    "format": (lambda x: x * 3 if "7.77" in f"{x}" else x + 1, NUMBER),
    "DLPack": (
        lambda x: x * 3 if (np.from_dlpack(x) == 7).all() else x + 1,
        "by DLPack in all samples",
    ),
    "a mask": (lambda x: x * 3 if x[x > 0].numel() == 77 else x + 1, SIZE),
    "masked_select": (lambda x: x * 3 if len(x.masked_select(x > 0)) == 77 else x + 1, SIZE),
    "nonzero": (lambda x: x * 3 if (x > 0).nonzero().shape[0] == 77 else x + 1, SIZE),
    "where": (lambda x: x * 3 if torch.where(x > 0)[0].size(0) == 77 else x + 1, SIZE),
    "unique": (lambda x: x * 3 if x.sign().relu().unique().numel() == 77 else x + 1, SIZE),
    "bincount": (lambda x: x * 3 if len(torch.bincount((x > 0).sum(1))) == 77 else x + 1, SIZE),
    "a loop": (loop, SIZE),
    "a size two lines above": (later, "size [0] in all samples"),
}


def readings_in(function: Compute, folder: Path) -> list[str]:
    verification = eb.deploy(
        Model(function),
        X,
        backend="loopback",
        work_dir=folder / "out",
        export={"exporter": "torchscript"},
    ).verification
    assert verification.verdict == "verified"
    return [each for each in verification.warnings if "Python reads" in each]


@pytest.mark.parametrize("case", READS)
def test_a_reading_that_a_tracer_fixes_is_named_with_its_line(case: str, tmp_path: Path) -> None:
    function, text = READS[case]
    (warning,) = readings_in(function, tmp_path)
    assert warning.startswith("reference/test_hidden_reads.py:")
    assert f": Python reads a value that depends on the inputs ({text}); if" in warning


SILENT: dict[str, Compute] = {
    "a branch whose both sides agree": lambda x: x * 1 if x.sum() > 0 else x + 0,
    "a size of the input": lambda x: x * 3 if x.shape[0] == 7 else x + 1,
    "indices": lambda x: x * 3 if x[:, torch.tensor([0, 1])].shape[1] == 7 else x + 1,
    "computed indices": lambda x: x * 3 if x[x.argmax(1) * 0].shape[0] == 7 else x + 1,
    "a size that no branch reads": lambda x: x + x[x > 0].sum(),
}


@pytest.mark.parametrize("case", SILENT)
def test_what_no_tracer_fixes_is_no_warning(case: str, tmp_path: Path) -> None:
    assert readings_in(SILENT[case], tmp_path) == []
