"""Nested rewriting contexts in several threads, and the changes that remain after them."""

from __future__ import annotations

import math
import random
import sys
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

import enginebay as eb

from .leaks import changes, functions, is_altered
from .tally import PARTS, Tally, in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

#: The most contexts around one call.
_DEEPEST = 12


def double(x: float) -> float:
    """A function, as of a model's package."""
    return x * 2


class Base:
    def method(self, x: float) -> float:
        return x + 1


class Child(Base):
    """Inherits the method that is rewritten."""


#: A call of each kind of function that can be rewritten; some kinds differ in how they are
#: intercepted: torch's C functions, its methods and its Python functions, a function of the
#: model's package, one written in C, an inherited method.
CALLS: dict[str, Callable[[], float]] = {
    "torch.relu": lambda: float(torch.relu(torch.tensor(3.0))),
    "torch.Tensor.abs": lambda: float(torch.tensor(-3.0).abs()),
    "torch.nn.functional.hardtanh": lambda: float(functional.hardtanh(torch.tensor(3.0), 0, 9)),
    f"{__name__}.double": lambda: double(3.0),
    "math.erf": lambda: math.erf(0.0),
    f"{__name__}.Child.method": lambda: Child().method(3.0),
}
ORIGINAL = {name: call() for name, call in CALLS.items()}


def rewriters(step: int, names: Collection[str]) -> eb.RewriterSet:
    """Return rewriters of functions and modules that add a number to the original's result."""
    made = eb.RewriterSet()

    def add(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        return ctx.origin_func(*args, **kwargs) + step

    for name in names:
        made.function(name)(add)

    @made.module("torch.nn.Hardswish")
    class Added(nn.Module):
        def __init__(self, ctx: Any, module: nn.Module) -> None:
            super().__init__()
            self.inner = module

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) + step

    return made


def net() -> nn.Module:
    """Return a model with a module that is rewritten, and a hook on it."""
    model = nn.Sequential(nn.Sequential(nn.Hardswish()), nn.Flatten(0))
    model[0][0].register_forward_hook(lambda module, args, output: output * 2)
    return model


class Stop(Exception):
    """Raised inside of contexts."""


class ConcurrentContexts:
    """Contexts of several threads."""

    def __init__(self, seed: int) -> None:
        self.tally = Tally()
        self._seed = seed

    def run(self, contexts: int, threads: int) -> None:
        """Enter about ``contexts`` contexts, in all threads together."""
        eb.rewrite(net(), backend=None).__enter__().__exit__(None, None, None)  # imports
        before = functions()
        self._models = [net() for _ in range(threads)]
        each = ceil(contexts / threads / PARTS)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)  # threads switch as often as Python allows
        try:
            in_threads(self.tally, threads, partial(self._work, each))
        finally:
            sys.setswitchinterval(interval)
        self.tally.add("count", each * PARTS * threads)
        for place in changes(before, functions(), __name__):
            self.tally.add("leaked", note=place)
        for model in self._models:
            if repr(model) != repr(net()) or any(map(is_altered, model.modules())):
                self.tally.add("leaked", note=f"the model {model}")

    def _work(self, contexts: int, index: int) -> Iterator[None]:
        thread = Thread(index, self._models, random.Random(self._seed + index))
        for _ in range(PARTS):
            left = contexts
            while left:
                try:
                    left -= thread.tower(left)
                except BaseException as err:  # the table shows any error
                    self.tally.add("raised", note=repr(err))
                    break
            yield
        for note in thread.wrong:
            self.tally.add("wrong", note=note)
        if torch._C._len_torch_function_stack():
            self.tally.add("leaked", note="a mode of torch")


class Thread:
    """One thread's contexts, which it leaves in several ways.

    Args:
        index: The thread's number.
        models: The models of all threads.
        draw: The source of random numbers.
    """

    def __init__(self, index: int, models: list[nn.Module], draw: random.Random) -> None:
        self.wrong: list[str] = []
        self._own, self._others = models[index], models[index - 1]
        self._step = index + 1
        self._draw = draw
        self._rewritten: list[str] = []

    def tower(self, most: int) -> int:
        """Enter nested contexts, check the calls inside them, and leave them.

        Returns:
            Their number, which is ``most`` or fewer.
        """
        depth = min(self._draw.randint(1, _DEEPEST), most)
        self._check(0)
        # Only a few, so that threads often begin and end to rewrite the same function.
        self._rewritten = self._draw.sample(list(CALLS), 2)
        self._set = rewriters(self._step, self._rewritten)
        self._draw.choice([self._nested, self._raising, self._in_any_order])(depth)
        self._check(0)
        return depth

    def _context(self) -> Any:
        # Core's own rewriters too, now and then: they are many.
        builtin = self._draw.random() < 0.1
        return eb.rewrite(self._own, backend=None, rewriters=[self._set], builtin=builtin)

    def _nested(self, depth: int, level: int = 1) -> None:
        with self._context():
            self._check(level)
            if level < depth:
                self._nested(depth, level + 1)
            self._check(level)

    def _raising(self, depth: int) -> None:
        error = self._draw.choice([Stop, KeyboardInterrupt, SystemExit])

        def enter(level: int) -> None:
            with self._context():
                if level == depth:
                    raise error
                enter(level + 1)

        try:
            enter(1)
        except error:
            return
        self.wrong.append(f"no {error.__name__} came through")

    def _in_any_order(self, depth: int) -> None:
        """Leave contexts in a random order, as generators do that are closed when unused."""
        entered = [self._context() for _ in range(depth)]
        for context in entered:
            context.__enter__()
        self._draw.shuffle(entered)
        while entered:
            entered.pop().__exit__(None, None, None)
            self._check(len(entered), model=False)

    def _check(self, level: int, *, model: bool = True) -> None:
        for name, call in CALLS.items():
            added = level * self._step if name in self._rewritten else 0
            if (found := call()) != (wanted := ORIGINAL[name] + added):
                self.wrong.append(f"{name} at level {level}: {found}, expected {wanted}")
        x = torch.tensor([3.0])
        if self._others is not self._own and (found := float(self._others(x))) != 6:
            self.wrong.append(f"another thread's model at level {level}: {found}, expected 6")
        # Inside, the innermost context's module rewriter finds nothing left to replace.
        wanted = 2 * (3 + self._step * (level > 0))
        if model and (found := float(self._own(x))) != wanted:
            self.wrong.append(f"the thread's model at level {level}: {found}, expected {wanted}")
