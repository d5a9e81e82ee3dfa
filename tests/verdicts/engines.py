"""Engines that are right for the arrays that a trial used to pass, and for no others."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from enginebay.testing import temporary_backend

from .models import Case, Function
from .trial import verdict_of_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The loopback backend with another ``execute``, whose engine is ``self.run``.
SOURCE = """
import numpy as np
from enginebay.testing import loopback
from enginebay.testing.loopback import *

check_env, to_backend = loopback.check_env, loopback.to_backend

class Engine(LoopbackWrapper):
    results = {{}}

    def run(self, feed):
        return super().execute(feed)

    def run_torch(self, feed):
        import torch
        outputs = self.run({{name: x.numpy() for name, x in feed.items()}})
        return [torch.from_numpy(np.array(y)) for y in outputs]
{method}

@eb.hookimpl
def build_wrapper(request):
    return Engine(request)

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name="faulty", irs=("onnx",), params=LoopbackParams)
"""
RIGHT = """
    native_device = "cpu"
    def execute_torch(self, feed):
        return self.run_torch(feed)
"""
FAULTS = {
    "writes into arrays": """
    def execute(self, feed):
        outputs = [y.copy() for y in self.run(feed)]
        for x in feed.values():
            if x.flags.writeable:
                x[...] = 0
        return outputs
""",
    "reads memory in order": """
    def execute(self, feed):
        import ctypes
        read = lambda x: np.frombuffer(ctypes.string_at(x.ctypes.data, x.nbytes), x.dtype)
        return self.run({name: read(x).reshape(x.shape) for name, x in feed.items()})
""",
    "writes into what is read-only": """
    def execute(self, feed):
        for x in feed.values():
            x *= 1
        return self.run(feed)
""",
    "is twice as large for tensors": """
    native_device = "cpu"
    def execute_torch(self, feed):
        return [y * 2 for y in self.run_torch(feed)]
""",
    "writes into tensors": """
    native_device = "cpu"
    def execute_torch(self, feed):
        outputs = self.run_torch(feed)
        for x in feed.values():
            x += 1
        return outputs
""",
    "keeps the first result of a shape": """
    def execute(self, feed):
        key = tuple(x.shape for x in feed.values())
        return self.results.setdefault(key, self.run(feed))
""",
    "returns one buffer again and again": """
    def execute(self, feed):
        for place, y in enumerate(self.run(feed)):
            self.results.setdefault((place, y.shape), y)[...] = y
        return [y for y in self.results.values()]
""",
}
OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: torch.softmax(x, 1),
    "cumsum": lambda x: x.cumsum(0),
    "convolution": lambda x: functional.conv1d(x[None], torch.linspace(-1, 1, 9).reshape(1, 3, 3)),
    "transpose": lambda x: x.mT + 1,
}


def cases() -> Iterator[tuple[str, str, Case]]:
    """Each fault in an engine for each operation: its name, the method, and the model."""
    example = torch.arange(12.0).reshape(3, 4)
    for (fault, method), (name, operation) in itertools.product(FAULTS.items(), OPERATIONS.items()):
        yield f"{name}, on an engine that {fault}", method, Case(Function(operation), example)


def right_cases() -> Iterator[tuple[str, str, Case]]:
    """The same operations on an engine without a fault."""
    for name, operation in OPERATIONS.items():
        yield name, RIGHT, Case(Function(operation), torch.arange(12.0).reshape(3, 4))


def verdict_of_engine(method: str, case: Case) -> str:
    """The verdict on a right model, deployed to an engine with this method."""
    with temporary_backend("faulty", SOURCE.format(method=method)):
        return verdict_of_model(case, "faulty")
