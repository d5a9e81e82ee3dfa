"""Small reference models, with example inputs for which the outputs are of order 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from enginebay.authors.arrays import to_numpy, to_torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.authors.arrays import NumpyArray


class Example(NamedTuple):
    """A model with example inputs; ``dynamic_shapes`` is input → axis → (name, min, max)."""

    module: nn.Module
    inputs: dict[str, Tensor]
    dynamic_shapes: dict[str, dict[int, tuple[str, int, int]]]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of the inputs and outputs, in NumPy's names."""
        tensors = (*self.inputs.values(), *self._run_module(self.inputs).values())
        return tuple(str(tensor.dtype).removeprefix("torch.") for tensor in tensors)

    def arrays(self) -> dict[str, NumpyArray]:
        """Return copies of the inputs as NumPy arrays."""
        return {name: to_numpy(tensor.clone()) for name, tensor in self.inputs.items()}

    def run(self, inputs: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """Run the model in PyTorch, and return its outputs by name."""
        # Copies: torch.from_numpy() refuses negative strides and warns about read-only arrays.
        tensors = {name: to_torch(np.array(array, order="C")) for name, array in inputs.items()}
        return {name: to_numpy(tensor) for name, tensor in self._run_module(tensors).items()}

    def _run_module(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with torch.no_grad():
            result = self.module(**tensors)
        return result if isinstance(result, dict) else {"output": result}


class Pair(nn.Module):
    """A model with two inputs and three outputs, the last of which is an unchanged input."""

    def forward(self, x: Tensor, z: Tensor) -> dict[str, Tensor]:
        return {"sum": x + z, "scaled": 2 * x, "same": x}


class Names(nn.Module):
    """A model with an unused input, and with names that are not in alphabetical order."""

    def forward(self, second: Tensor, unused: Tensor, first: Tensor) -> dict[str, Tensor]:  # noqa: ARG002  # that is the point
        return {"zulu": first - second, "alpha": first * 3, "mike": second / 2}


class Twice(nn.Module):
    """A model that concatenates its input with itself, an operation for every dtype."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, x], 1)


class Triple(nn.Module):
    """A model that adds its input to its double, in several operations on much data."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 2 * x


class Negate(nn.Module):
    """A model that negates its input, which is a tensor without dimensions."""

    def forward(self, x: Tensor) -> Tensor:
        return -x


class Convolutions(nn.Module):
    """A model with plain, grouped and transposed convolutions, pooling and a classifier."""

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
    """A block of a transformer, with attention, a layer norm and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.mix = nn.MultiheadAttention(16, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, tokens: Tensor) -> Tensor:
        normed = self.norm(tokens)
        mixed, _ = self.mix(normed, normed, normed, need_weights=False)
        result: Tensor = tokens + self.mlp(tokens + mixed)
        return result


class Shapes(nn.Module):
    """A model that slices, concatenates, permutes and reshapes its input."""

    def forward(self, x: Tensor) -> Tensor:
        left, right = x[:, :2], x[:, 2:]
        turned = torch.cat([right, left], 1).permute(0, 2, 1)
        return turned.reshape(x.shape[0], -1)[:, 1:].unsqueeze(1)


class Pointwise(nn.Module):
    """A model of element-wise functions of one and of two tensors."""

    def forward(self, x: Tensor) -> Tensor:
        positive = x.abs() + 0.5
        mixed = torch.sigmoid(x) * torch.tanh(x) + torch.sqrt(positive) - torch.exp(-positive)
        return torch.maximum(nn.functional.silu(mixed), x.clamp(-0.5, 0.5)) / positive


class Reductions(nn.Module):
    """A model that reduces its input by a mean, a maximum, a softmax and a sum."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        weights = x.softmax(-1)
        return {
            "mean": x.mean(-1),
            "largest": x.amax(-1, keepdim=True),
            "mixed": (weights * x).sum(-1),
        }


class Lookup(nn.Module):
    """A model with an embedding: integers select rows of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.linear = nn.Linear(8, 4)

    def forward(self, ids: Tensor) -> Tensor:
        result: Tensor = self.linear(self.table(ids))
        return result


class Matrices(nn.Module):
    """A model with matrix products of its two inputs; it has no weights."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.relu(a @ b.transpose(1, 2)) @ b


#: The models of the tests of numerics, with the shapes of their float32 inputs by name.
NUMBERS: dict[str, tuple[type[nn.Module], dict[str, tuple[int, ...]]]] = {
    "convolutions": (Convolutions, {"image": (1, 3, 16, 16)}),
    "attention": (Attention, {"tokens": (1, 5, 16)}),
    "shapes": (Shapes, {"x": (1, 4, 3)}),
    "pointwise": (Pointwise, {"x": (1, 4, 6)}),
    "reductions": (Reductions, {"x": (1, 4, 6)}),
    "lookup": (Lookup, {}),
    "matrices": (Matrices, {"a": (1, 4, 6), "b": (1, 5, 6)}),
}

#: The largest size of a dynamic dimension, since engines may be built for a range.
LARGEST = 8


def build(name: str, *, dynamic: bool) -> Example:
    """Build a reference model, always with the same weights and inputs.

    Args:
        name: ``pair``, ``pair:empty``, ``fixed``, ``large``, ``names``, ``scalar``,
            ``twice:DTYPE``, or a key of NUMBERS.
        dynamic: True to make the first dimension dynamic: 1 to LARGEST in ``pair`` and ``twice``,
            from 0 for ``pair:empty``.
    """
    # The random state of the process must not change.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if name in NUMBERS:
            kind, shapes = NUMBERS[name]
            inputs = {key: torch.randn(shape) for key, shape in shapes.items()}
            return Example(kind().eval(), inputs or {"ids": torch.tensor([[1, 0, 7, 9]])}, {})
        if name.startswith("twice:"):
            # Numbers that each dtype represents exactly; as bools, they are True and False.
            x = torch.tensor([[0, 1, 100], [7, 0, 1]]).to(getattr(torch, name.partition(":")[2]))
            return Example(Twice().eval(), {"x": x}, _open_first_dim("x", dynamic=dynamic))
        if name in ("pair", "pair:empty"):
            inputs = {"x": torch.randn(2, 3), "z": torch.randn(2, 3)}
            sizes = _open_first_dim(
                "x", "z", dynamic=dynamic, smallest=0 if name == "pair:empty" else 1
            )
            return Example(Pair().eval(), inputs, sizes)
        if name == "names":
            inputs = {key: torch.randn(2, 3) for key in ("second", "unused", "first")}
            return Example(Names().eval(), inputs, {})
        if name == "large":
            return Example(Triple().eval(), {"x": torch.randn(512, 1024)}, {})
        if name == "scalar":
            return Example(Negate().eval(), {"x": torch.tensor(2.0)}, {})
        fixed = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3))
        return Example(fixed.eval(), {"input": torch.randn(2, 4)}, {})


def _open_first_dim(
    *names: str, dynamic: bool, smallest: int = 1
) -> dict[str, dict[int, tuple[str, int, int]]]:
    return {name: {0: ("n", smallest, LARGEST)} for name in names} if dynamic else {}
