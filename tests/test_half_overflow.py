"""Constants beyond the largest number of fp16: a mismatch names them, and masks pass in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import NotVerifiedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

#: What computes with a constant beyond 65504 → the function, and how the constant reads.
OPERATIONS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "a product": (lambda x: x * 1e5 / 1e3, "100000"),
    "a sum": (lambda x: (x + 131072.0) - 131000.0, "131072"),
    "a weight": (lambda x: x * torch.tensor([1.0, -2e5, 3.0]) / 1e3, "-200000"),
}


class Net(nn.Module):
    def __init__(self, operation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.operation = operation

    def forward(self, x: Tensor) -> Tensor:
        return self.operation(x)


def deploy(operation: Callable[[Tensor], Tensor], folder: Path, **over: bool) -> eb.Deployment:
    torch.manual_seed(0)
    return eb.deploy(
        Net(operation),
        torch.randn(4, 3),
        backend="onnxruntime",
        work_dir=folder,
        precision="fp16",
        verify=over,
    )


@pytest.mark.parametrize("kind", OPERATIONS)
def test_a_mismatch_names_the_constant(kind: str, tmp_path: Path) -> None:
    operation, text = OPERATIONS[kind]
    with pytest.raises(NotVerifiedError) as caught:
        deploy(operation, tmp_path / "out")
    (cause,) = (line for line in str(caught.value).splitlines() if f"the constant {text}" in line)
    assert cause.startswith("cause ")
    assert cause.endswith(
        " is beyond 65504, the largest number of fp16, which replaces it: --fp32-nodes NODE leaves "
        "a node in fp32"
    )


def test_an_allowed_mismatch_has_the_constant_in_its_notes(tmp_path: Path) -> None:
    operation, text = OPERATIONS["a product"]
    done = deploy(operation, tmp_path / "out", allow_mismatch=True)
    assert done.notes[0].startswith(f"the constant {text} of node_mul is beyond 65504")


def test_a_mask_beyond_the_largest_number_passes_in_silence(tmp_path: Path) -> None:
    def attend(x: Tensor) -> Tensor:
        return (x + (x < x.mean(-1, keepdim=True)) * -1e9).softmax(-1)

    done = deploy(attend, tmp_path / "out")
    assert (done.verdict, done.notes) == ("verified", ())
