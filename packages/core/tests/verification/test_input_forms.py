"""An engine whose result depends on the memory of its inputs, or that changes them, is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import InferenceError
from enginebay.testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Deploy = Callable[[str], eb.Deployment]

#: The loopback backend, whose engine is built by ``build``.
SOURCE = """
import numpy as np
from enginebay.testing import loopback
from enginebay.testing.loopback import *

check_env, to_backend = loopback.check_env, loopback.to_backend

class Engine(LoopbackWrapper):
    def run(self, feed):
        return super().execute(feed)

{methods}

@eb.hookimpl
def build_wrapper(request):
    return Engine(request)

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name="faulty", irs=("onnx",), params=LoopbackParams)
"""

WRITES = """
    def execute(self, feed):
        outputs = self.run(feed)
        for array in feed.values():
            if array.flags.writeable:
                array[...] = 0
        return outputs
"""
WRITES_WHATEVER = """
    def execute(self, feed):
        for array in feed.values():
            array *= 1
        return self.run(feed)
"""
IGNORES_STRIDES = """
    def execute(self, feed):
        import ctypes
        memory = {
            name: np.frombuffer(ctypes.string_at(x.ctypes.data, x.nbytes), x.dtype).reshape(x.shape)
            for name, x in feed.items()
        }
        return self.run(memory)
"""
DIES_OF_STRIDES = """
    def execute(self, feed):
        if not all(x.flags.c_contiguous for x in feed.values()):
            __import__("os").kill(__import__("os").getpid(), 11)
        return self.run(feed)
"""
TORCH = """
    native_device = "cpu"
    def execute_torch(self, feed):
        import torch
        outputs = self.run({name: x.numpy() for name, x in feed.items()})
        return [torch.from_numpy(y) * END for y in outputs]
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
STRIDED = "given strided, read-only arrays of the same values"
TENSORS = "given torch tensors on cpu of the same values"


@pytest.fixture
def deploy(tmp_path: Path) -> Deploy:
    def deploy(methods: str) -> eb.Deployment:
        with temporary_backend("faulty", SOURCE.format(methods=methods)):
            example = torch.arange(12.0).reshape(3, 4)
            return eb.deploy(nn.Softmax(1), example, backend="faulty", work_dir=tmp_path / "out")

    return deploy


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (WRITES, r"onnx\.reference \S+ writes into its input 'input'"),
        (WRITES_WHATEVER, f"{STRIDED}: .* read-only"),
        (IGNORES_STRIDES, f"{STRIDED}, the engine is wrong: .*expected .* found"),
        (TORCH.replace("END", "2"), f"{TENSORS}, the engine is wrong: .*expected .* found"),
        (WRITES_INTO_TORCH, f"{TENSORS}: .* writes into its input 'input'"),
    ],
)
def test_a_wrapper_that_breaks_its_contract_is_refused(
    deploy: Deploy, tmp_path: Path, methods: str, message: str
) -> None:
    with pytest.raises(InferenceError, match=message) as caught:
        deploy(methods)
    assert caught.value.hint == "it is a fault of the backend: report it to its authors"
    assert not (tmp_path / "out").exists()


def test_a_crash_is_one_of_the_trial(deploy: Deploy) -> None:
    with pytest.raises(eb.EnginebayError, match="ended with SIGSEGV") as caught:
        deploy(DIES_OF_STRIDES)
    assert "crashed" in str(caught.value)


def test_native_tensors_that_are_right_pass(deploy: Deploy) -> None:
    assert deploy(TORCH.replace("END", "1")).verdict == "verified"


def test_an_engine_that_differs_each_time_is_left_to_the_verdict(deploy: Deploy) -> None:
    with pytest.raises(eb.errors.MismatchError):
        deploy(RANDOM)
