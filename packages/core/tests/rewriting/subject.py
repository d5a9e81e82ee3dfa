"""Code to be rewritten, in place of a model's package."""

from __future__ import annotations

import functools

import torch
from torch import nn


def double(x, factor=2, *, plus=0):
    return x * factor + plus


def calls_double(x):
    return double(x)


def countdown(n):
    return [n] if n == 0 else [n, *countdown(n - 1)]


@functools.lru_cache(maxsize=1)
def cached(x):
    return x


class Base:
    def method(self, x):
        return ("base", x)

    @staticmethod
    def static(x):
        return ("static", x)

    @classmethod
    def klass(cls, x):
        return (cls.__name__, x)

    @property
    def value(self):
        return "value"

    @functools.cached_property
    def length(self):
        return 4


class Child(Base):
    pass


class Table(dict):
    fromkeys = dict.__dict__["fromkeys"]  # a class method that is written in C


class Inheriting(dict):
    pass


table, inheriting = Table.fromkeys, Inheriting.fromkeys


class Grandchild(Child):
    def method(self, x):
        return ("grandchild", *super().method(x))


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        return x * factor

    @staticmethod
    def symbolic(g, x, factor):
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))


class NoSymbolic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.abs()


class Block(nn.Module):
    def __init__(self, children=()):
        super().__init__()
        self.blocks = nn.ModuleList(children)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x + 1


class Net(nn.Module):
    """A shared convolution, a buffer, attention, and a leaf of a subclass."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.again = nn.Sequential(nn.Conv2d(4, 2, 1), self.conv)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, image):
        features = self.again(self.norm(self.conv(image)))
        tokens = features.flatten(2).transpose(1, 2)
        return self.attention(tokens, tokens, tokens, need_weights=False)[0]


class Swap(torch.autograd.Function):
    """Takes a list of tensors, a size and a flag; returns a tensor, None and a view."""

    @staticmethod
    def forward(ctx, tensors, size, flag=True):
        first, second = tensors
        return (second + size if flag else second), None, first.view(-1)

    @staticmethod
    def symbolic(g, tensors, size, flag=True):
        raise NotImplementedError


scale = Scale.apply


class Operators(nn.Module):
    """Three operators and two autograd functions, of which Scale is called by an alias."""

    def forward(self, x):
        x = torch.nn.functional.gelu(x, approximate="tanh").relu()
        return NoSymbolic.apply(scale(x.squeeze(0), 3.0))
