"""A slice of the calls and contexts of ``nox -s soak``, the same ones each time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import enginebay as eb

from . import calls, contexts, leaks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "ncnn"])
def test_threads_that_call_one_wrapper_get_their_own_numbers(tmp_path: Path, backend: str) -> None:
    with eb.load(calls.deploy(tmp_path / "artifact", backend).artifact) as wrapper:
        soak = calls.Soak(wrapper, seed=1)
        soak.run(calls=1000, threads=8)
    assert soak.tally.is_clean, soak.tally


def test_threads_that_rewrite_leave_everything_as_it_was() -> None:
    soak = contexts.Soak(seed=1)
    soak.run(contexts=400, threads=8)
    assert soak.tally.is_clean, soak.tally


def test_an_output_that_later_calls_overwrite_is_seen() -> None:
    memory = np.zeros(1, np.float32)

    def shared(feed):
        np.copyto(memory, np.asarray(feed["rows"]).sum())
        return {"sum": memory[:]}

    soak = calls.Soak(shared, seed=1)
    soak.run(calls=100, threads=1)
    assert soak.tally.aliased >= 99


def test_a_function_that_is_still_another_one_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    before = leaks.functions()
    monkeypatch.setattr(contexts.double, "__code__", (lambda x: x).__code__)
    monkeypatch.setattr(contexts.Child, "method", lambda self, x: x, raising=False)
    monkeypatch.setattr(math, "erf", math.erfc)
    place = contexts.__name__
    assert set(leaks.changes(before, leaks.functions(), place)) == {
        *("math.erf", f"{place}.Child.method", f"{place}.double"),
    }
