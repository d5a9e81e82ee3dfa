"""Engines that change their inputs, or depend on their memory layout, are refused."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tests.faulty_engines import FAULTS, HIDDEN_FAULTS, RIGHT, SOURCE
from torch import nn

import enginebay as eb
from enginebay.errors import InferenceError
from enginebay.tensors import Sample
from enginebay.verification import other_calls
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Deploy = Callable[[str], eb.Deployment]

DIES_OF_STRIDES = """
    def execute(self, feed):
        if not all(x.flags.c_contiguous for x in feed.values()):
            __import__("os").kill(__import__("os").getpid(), 11)
        return self.run(feed)
"""
WRITES_INTO_TORCH = """
    native_device = "cpu"
    def execute_torch(self, feed):
        for tensor in feed.values():
            tensor += 1
        return list(feed.values())
"""
RANDOM = """
    def execute(self, feed):
        return [np.random.random(y.shape).astype(y.dtype) for y in self.run(feed)]
"""
STRIDED = "with strided, read-only arrays of the same values"
TENSORS = "with torch tensors on cpu of the same values"


@pytest.fixture
def deploy(tmp_path: Path) -> Deploy:
    def deploy(methods: str) -> eb.Deployment:
        with temporary_backend("faulty", SOURCE.format(method=methods)):
            example = torch.arange(12.0).reshape(3, 4)
            return eb.deploy(nn.Softmax(1), example, backend="faulty", work_dir=tmp_path / "out")

    return deploy


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (FAULTS["writes into arrays"], r"onnx\.reference \S+ writes into its input 'input'"),
        (
            FAULTS["gives tensors for arrays"],
            "'output': expected a NumPy array, found a Tensor",
        ),
        (FAULTS["gives lists"], "for 'output': expected a NumPy array, found a list"),
        (FAULTS["gives an output too much"], r"returned 2 outputs, expected a list of 1: output"),
        (FAULTS["writes into what is read-only"], f"{STRIDED}: .* read-only"),
        (
            FAULTS["reads memory in order"],
            f"{STRIDED}, the engine returns different outputs: .*expected .* found",
        ),
        (
            FAULTS["keeps the result of an array by its address"],
            "with arrays that held other values before, the engine returns different outputs: .*",
        ),
        (
            FAULTS["is right in the thread that loaded it"],
            "with the same values in another thread, the engine returns different outputs: .*",
        ),
        (
            FAULTS["is twice as large for tensors"],
            f"{TENSORS}, the engine returns different outputs: .*expected .* found",
        ),
        *(
            (HIDDEN_FAULTS[name], "with the engine loaded a second time beside this one, the ")
            for name in (
                "takes its range from its first input",
                "gives zeros when loaded again",
                "overwrites what another wrapper returned",
                "gives zeros beside another wrapper",
                "writes into its folder and reads it",
            )
        ),
        (WRITES_INTO_TORCH, f"{TENSORS}: .* writes into its input 'input'"),
    ],
)
def test_a_wrapper_that_breaks_its_contract_is_refused(
    deploy: Deploy, tmp_path: Path, methods: str, message: str
) -> None:
    with pytest.raises(InferenceError, match=message) as caught:
        deploy(methods)
    assert re.fullmatch(
        r"report it to the authors of temporary-faulty, or correct execute\(\) of "
        r"temporary_faulty_\d+\.\w+",
        caught.value.hint or "",
    )
    assert not (tmp_path / "out").exists()


def test_a_crash_on_strided_arrays_is_reported(deploy: Deploy) -> None:
    with pytest.raises(eb.EnginebayError, match="ended with SIGSEGV") as caught:
        deploy(DIES_OF_STRIDES)
    assert "crashed" in str(caught.value)


def test_native_tensors_that_are_right_pass(deploy: Deploy) -> None:
    assert deploy(RIGHT).verdict == "verified"


@pytest.mark.parametrize("methods", [RANDOM, HIDDEN_FAULTS["gives zeros the second time"]])
def test_an_engine_that_changes_from_call_to_call_fails_the_verdict(
    deploy: Deploy, methods: str
) -> None:
    with pytest.raises(eb.errors.NotVerifiedError):
        deploy(methods)


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(("budget", "calls"), [(0.0, 0), (0.1, 1), (600.0, 2)])
def test_other_calls_of_a_slow_engine_end(
    budget: float, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = eb.deploy(
        nn.Softmax(1), torch.randn(3, 4), backend="loopback", work_dir=tmp_path / "out"
    )
    wrapper = eb.load(deployment.artifact)
    inputs = {"input": np.ones((3, 4), np.float32)}
    run, made = Sample(inputs, wrapper(inputs)), []

    def execute(feed: dict[str, Any]) -> list[Any]:
        made.append(feed)
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        return [*run.outputs.values()]

    monkeypatch.setattr(wrapper, "execute", execute)
    monkeypatch.setattr(other_calls, "_SECONDS", budget)
    other_calls.check_other_calls(wrapper, [run], None)
    assert len(made) == calls
