"""A few of the calls and contexts of ``nox -s endurance``, with a fixed seed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import enginebay as eb

from . import calls, contexts, leaks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "ncnn"])
def test_concurrent_calls_return_their_own_outputs(tmp_path: Path, backend: str) -> None:
    with eb.load(calls.deploy(tmp_path / "artifact", backend).artifact) as wrapper:
        calling = calls.ConcurrentCalls(wrapper, seed=1)
        calling.run(calls=300, threads=8)
    assert calling.tally.is_clean, calling.tally


def test_concurrent_rewriting_restores_every_function() -> None:
    rewriting = contexts.ConcurrentContexts(seed=1)
    rewriting.run(contexts=100, threads=8)
    assert rewriting.tally.is_clean, rewriting.tally


def test_run_counts_outputs_that_later_calls_overwrite() -> None:
    memory = np.zeros(1, np.float32)

    def shared(feed):
        np.copyto(memory, np.asarray(feed["rows"]).sum())
        return {"sum": memory[:]}

    calling = calls.ConcurrentCalls(shared, seed=1)
    calling.run(calls=100, threads=1)
    assert calling.tally.aliased >= 99


def test_run_finds_functions_that_are_still_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    before = leaks.functions()
    monkeypatch.setattr(contexts.double, "__code__", (lambda x: x).__code__)
    monkeypatch.setattr(contexts.Child, "method", lambda self, x: x, raising=False)
    monkeypatch.setattr(math, "erf", math.erfc)
    place = contexts.__name__
    assert set(leaks.changes(before, leaks.functions(), place)) == {
        *("math.erf", f"{place}.Child.method", f"{place}.double"),
    }
