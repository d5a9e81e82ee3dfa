"""The small reference models: each an ``nn.Module`` with inputs whose outputs are of order one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from enginebay.tensors import host_tensor, to_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.tensors import NumpyArray


class Example(NamedTuple):
    """A model, its inputs by name, and which of their dimensions are open."""

    module: nn.Module
    inputs: dict[str, Tensor]
    dynamic_shapes: dict[str, dict[int, tuple[str, int, int]]]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of its inputs and outputs, in NumPy's names."""
        tensors = (*self.inputs.values(), *self._outputs(self.inputs).values())
        return tuple(str(tensor.dtype).removeprefix("torch.") for tensor in tensors)

    def arrays(self) -> dict[str, NumpyArray]:
        """The inputs as NumPy arrays of their own."""
        return {name: to_numpy(tensor.clone()) for name, tensor in self.inputs.items()}

    def run(self, inputs: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """Return the outputs of PyTorch."""
        tensors = {name: _tensor(array) for name, array in inputs.items()}
        return {name: to_numpy(each) for name, each in self._outputs(tensors).items()}

    def _outputs(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with torch.no_grad():
            found = self.module(**tensors)
        return found if isinstance(found, dict) else {"output": found}


class Pair(nn.Module):
    """Two inputs; three outputs, the last of which is an input."""

    def forward(self, x: Tensor, z: Tensor) -> dict[str, Tensor]:
        return {"sum": x + z, "scaled": 2 * x, "same": x}


class Names(nn.Module):
    """Names in no alphabetical order, and an input that is not used."""

    def forward(self, second: Tensor, unused: Tensor, first: Tensor) -> dict[str, Tensor]:  # noqa: ARG002  # that is the point
        return {"zulu": first - second, "alpha": first * 3, "mike": second / 2}


class Twice(nn.Module):
    """Moves its input and computes nothing, which works in every dtype."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, x], 1)


class Negate(nn.Module):
    """For scalars."""

    def forward(self, x: Tensor) -> Tensor:
        return -x


class Convolutions(nn.Module):
    """Plain, strided, grouped and transposed convolutions, pooling, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.depthwise = nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.head = nn.Linear(8, 5)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        small = self.depthwise(nn.functional.max_pool2d(self.stem(image), 2))
        return {"logits": self.head(small.mean((2, 3))), "maps": self.up(small)}


class Attention(nn.Module):
    """One block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.mix = nn.MultiheadAttention(16, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, tokens: Tensor) -> Tensor:
        normed = self.norm(tokens)
        mixed, _ = self.mix(normed, normed, normed, need_weights=False)
        found: Tensor = tokens + self.mlp(tokens + mixed)
        return found


class Shapes(nn.Module):
    """Slices, permutations, concatenation, reshaping."""

    def forward(self, x: Tensor) -> Tensor:
        left, right = x[:, :2], x[:, 2:]
        turned = torch.cat([right, left], 1).permute(0, 2, 1)
        return turned.reshape(x.shape[0], -1)[:, 1:].unsqueeze(1)


class Pointwise(nn.Module):
    """Functions of one element each, and of two."""

    def forward(self, x: Tensor) -> Tensor:
        positive = x.abs() + 0.5
        mixed = torch.sigmoid(x) * torch.tanh(x) + torch.sqrt(positive) - torch.exp(-positive)
        return torch.maximum(nn.functional.silu(mixed), x.clamp(-0.5, 0.5)) / positive


class Reductions(nn.Module):
    """Sums, means, extremes, softmax."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        weights = x.softmax(-1)
        return {
            "mean": x.mean(-1),
            "largest": x.amax(-1, keepdim=True),
            "mixed": (weights * x).sum(-1),
        }


class Lookup(nn.Module):
    """Integers choose rows of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.linear = nn.Linear(8, 4)

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.linear(self.table(ids))
        return found


class Matrices(nn.Module):
    """Products of matrices that are not weights."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.relu(a @ b.transpose(1, 2)) @ b


#: The models whose numbers are checked, each with the shapes of its float32 inputs.
NUMBERS: dict[str, tuple[type[nn.Module], dict[str, tuple[int, ...]]]] = {
    "convolutions": (Convolutions, {"image": (1, 3, 16, 16)}),
    "attention": (Attention, {"tokens": (1, 5, 16)}),
    "shapes": (Shapes, {"x": (1, 4, 3)}),
    "pointwise": (Pointwise, {"x": (1, 4, 6)}),
    "reductions": (Reductions, {"x": (1, 4, 6)}),
    "lookup": (Lookup, {}),
    "matrices": (Matrices, {"a": (1, 4, 6), "b": (1, 5, 6)}),
}

#: The largest size of an open dimension: an engine may be built for a range.
LARGEST = 8


def build(name: str, *, dynamic: bool) -> Example:
    """Return a reference model, always with the same numbers.

    Args:
        name: ``pair``, ``pair:empty``, ``fixed``, ``names``, ``scalar``, ``twice:DTYPE``, or one
            of NUMBERS.
        dynamic: Open the first dimension of ``pair`` and ``twice``, from 1 to LARGEST, and
            that of ``pair:empty`` from 0.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if name in NUMBERS:
            return _numbers(name)
        if name.startswith("twice:"):
            x = torch.tensor([[0, 1, 100], [7, 0, 1]]).to(getattr(torch, name.partition(":")[2]))
            return Example(Twice().eval(), {"x": x}, _open("x", dynamic=dynamic))
        if name in ("pair", "pair:empty"):
            inputs = {"x": torch.randn(2, 3), "z": torch.randn(2, 3)}
            sizes = _open("x", "z", dynamic=dynamic, smallest=0 if name == "pair:empty" else 1)
            return Example(Pair().eval(), inputs, sizes)
        if name == "names":
            inputs = {key: torch.randn(2, 3) for key in ("second", "unused", "first")}
            return Example(Names().eval(), inputs, {})
        if name == "scalar":
            return Example(Negate().eval(), {"x": torch.tensor(2.0)}, {})
        fixed = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3))
        return Example(fixed.eval(), {"input": torch.randn(2, 4)}, {})


def _numbers(name: str) -> Example:
    kind, shapes = NUMBERS[name]
    inputs = {key: torch.randn(shape) for key, shape in shapes.items()}
    return Example(kind().eval(), inputs or {"ids": torch.tensor([[1, 0, 7, 9]])}, {})


def _open(
    *names: str, dynamic: bool, smallest: int = 1
) -> dict[str, dict[int, tuple[str, int, int]]]:
    return {name: {0: ("n", smallest, LARGEST)} for name in names} if dynamic else {}


def _tensor(array: NumpyArray) -> Tensor:
    return host_tensor(np.array(array, order="C"))
