"""The cost of rewriting: the context, a rewritten call, and an export inside a context."""

from __future__ import annotations

import gc
import logging
import os
import statistics
import sys
import time
import types
import warnings
from typing import TYPE_CHECKING, Any

from enginebay import RewriterSet, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable

#: Functions that models call, half of them in Python and half of torch.
TORCH_FUNCTIONS = 100
PYTHON_FUNCTIONS = 100
ELSEWHERE = 10_000
#: The number of exports by each side, for some 20 seconds: one takes 1.6 s and 0.15 s.
EXPORTS = {"dynamo": 8, "torchscript": 50}


def run() -> list[tuple[str, float, float]]:
    """Measure everything.

    Returns:
        The name, the measured figure and its limit, in the unit that the name ends with.
    """
    return [
        ("enter and leave with 200 rewriters, ms", _context(_two_hundred()) * 1e3, 5),
        ("the same with 10,000 for other backends, ms", _context(*_with_elsewhere()) * 1e3, 20),
        ("enter and leave with one C function outside torch, ms", _context(_c_function()) * 1e3, 5),
        ("a rewritten torch function over the original, us", _torch_call() * 1e6, 5),
        ("a rewritten Tensor method over the original, us", _method_call() * 1e6, 5),
        ("a rewritten Python function over the original, us", _python_call() * 1e6, 5),
        ("a call that no rewriter names over the original, us", _other_call() * 1e6, 5),
        ("a context around an export by dynamo, %", _export(dynamo=True), 5),
        ("a context around an export by torchscript, %", _export(dynamo=False), 5),
    ]


def _handed_back(ctx: Any, *args: Any, **kwargs: Any) -> Any:
    return ctx.origin_func(*args, **kwargs)


def _two_hundred() -> RewriterSet:
    import torch

    rewriters = RewriterSet()
    methods = [each for each in dir(torch.Tensor) if each.islower() and each[0] != "_"]
    names = [each for each in methods if callable(getattr(torch.Tensor, each))]
    for name in names[:TORCH_FUNCTIONS]:
        rewriters.function(f"torch.Tensor.{name}")(_handed_back)
    functions = _functions("bench_many", PYTHON_FUNCTIONS)
    for name in vars(functions):
        if name.startswith("f"):
            rewriters.function(f"bench_many.{name}")(_handed_back)
    assert len(rewriters) == TORCH_FUNCTIONS + PYTHON_FUNCTIONS
    return rewriters


def _functions(name: str, count: int) -> Any:
    """Return a loaded module with its own functions ``f0``, ``f1`` …"""
    module = sys.modules[name] = types.ModuleType(name)
    for index in range(count):
        exec(f"def f{index}(x): return x", vars(module))  # noqa: S102 - the text stands here
    return module


def _with_elsewhere() -> tuple[RewriterSet, RewriterSet]:
    elsewhere = RewriterSet(backend="elsewhere")
    for index in range(ELSEWHERE):
        elsewhere.function(f"some_package.some_module.f{index}")(_handed_back)
    return _two_hundred(), elsewhere


def _c_function() -> RewriterSet:
    """Return a rewriter whose aliases must be searched in the loaded modules at every entry."""
    rewriters = RewriterSet()
    rewriters.function("math.erf")(_handed_back)
    return rewriters


def _context(*sets: RewriterSet) -> float:
    """Return the seconds to enter and leave: the median of 60 runs after a warm-up of three."""

    def once() -> None:
        with rewrite(backend=None, rewriters=sets):
            pass

    return statistics.median(_times(once, 63)[3:])


def _times(function: Callable[[], Any], count: int) -> list[float]:
    gc.collect()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


def _over(call: Callable[[], Any], *names: str) -> float:
    """Return the added seconds of a call inside a context: the median of 7 rounds of 20,000."""

    def round_of_calls() -> None:
        for _ in range(20_000):
            call()

    rewriters = RewriterSet()
    for name in names:
        rewriters.function(name)(_handed_back)
    plain, rewritten = [], []
    for _ in range(7):
        plain += _times(round_of_calls, 1)
        with rewrite(backend=None, rewriters=[rewriters]):
            rewritten += _times(round_of_calls, 1)
    return (statistics.median(rewritten) - statistics.median(plain)) / 20_000


def _torch_call() -> float:
    import torch

    x = torch.zeros(4)
    return _over(lambda: torch.relu(x), "torch.relu")


def _method_call() -> float:
    import torch

    x = torch.zeros(4)
    return _over(lambda: x.flatten(), "torch.Tensor.flatten")


def _python_call() -> float:
    module = _functions("bench_one", 1)
    return _over(lambda: module.f0(1), "bench_one.f0")


def _other_call() -> float:
    import torch

    x = torch.zeros(4)
    return _over(lambda: torch.relu(x), "torch.sigmoid")


def _export(*, dynamo: bool) -> float:
    """Return the per cent of processor time that a context with 200 rewriters adds to an export.

    It compares the medians of many exports, taken in turns. The fastest would be unreliable: of
    two series of 45 exports without any context, the fastest differed by 4.7 %, the medians by
    0.2 %.
    """
    import torch
    from torch import nn

    layers = (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(8))
    model = nn.Sequential(*layers).eval()
    logging.getLogger("torch").setLevel(logging.ERROR)
    args = (torch.rand(2, 10, 64),)
    rewriters = _two_hundred()

    def export() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if dynamo:
                torch.onnx.export(model, args, dynamo=True, verbose=False)
            else:
                torch.onnx.export(model, args, os.devnull, dynamo=False)

    def inside() -> None:
        exporter = "dynamo" if dynamo else "torchscript"
        with rewrite(model, backend=None, rewriters=[rewriters], exporter=exporter):
            export()

    plain, rewritten = [], []
    for _ in range(EXPORTS["dynamo" if dynamo else "torchscript"]):
        plain.append(_processor_time(export))
        rewritten.append(_processor_time(inside))
    return (statistics.median(rewritten) / statistics.median(plain) - 1) * 100


def _processor_time(call: Callable[[], None]) -> float:
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> int:
    """Print the table; 1 if a figure is over its limit."""
    figures = run()
    for name, measured, limit in figures:
        mark = "ok" if measured <= limit else "OVER"
        print(f"{name:55} {measured:8.2f}  ≤ {limit:<5g} {mark}")
    return int(any(measured > limit for _, measured, limit in figures))


if __name__ == "__main__":
    sys.exit(main())
