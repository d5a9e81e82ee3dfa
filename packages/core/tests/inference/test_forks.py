"""A wrapper that a forked process inherits is refused there; its engine is never touched."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.process,
]

#: An engine with a destructor and release() that print, and a child's code.
SOURCE = """
import gc, os, sys
import numpy as np
from enginebay.inference import Receipt, Wrapper
from enginebay.tensors import TensorSpec

class Engine:
    def __del__(self):
        print("destructor", flush=True)

class One(Wrapper):
    __hash__ = None

    def __init__(self):
        super().__init__(inputs=[TensorSpec("x", "float32", (2,))], outputs=[])
        self.engine = Engine()

    receipt = Receipt(device="cpu", engine="one")

    def execute(self, feed):
        print("engine", flush=True)
        return []

    def release(self):
        print("release", flush=True)

wrapper = One()
x = {"x": np.zeros(2, np.float32)}
if child := os.fork():
    os.waitpid(child, 0)
    print("parent", flush=True)
    wrapper(x)
    wrapper.close()
else:
"""


def run(*lines: str) -> list[str]:
    source = SOURCE + "\n".join(f"    {line}" for line in lines)
    command = [sys.executable, "-W", "ignore", "-c", source]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


PARENT = ["parent", "engine", "release", "destructor"]

REFUSED = (
    "this wrapper was loaded before the process was forked, and its engine's threads are not in "
    "the child process; load the artifact in the child process; if the engine uses a GPU, start "
    'the process by multiprocessing.get_context("spawn")'
)


@pytest.mark.parametrize("given", ["x", "{}", "{'x': [1]}"])
def test_inherited_wrapper_refuses_calls(given: str) -> None:
    child = ("try:", f"    wrapper({given})", "except Exception as err:", "    print(err)")
    found = run(*child)
    assert found[1:] == PARENT
    assert found[0].startswith(REFUSED.partition(";")[0])


@pytest.mark.parametrize(
    "child", ["wrapper.close()", "with wrapper: pass", "del wrapper; gc.collect()", "sys.exit()"]
)
def test_inherited_engine_is_never_freed(child: str) -> None:
    assert run(child) == PARENT


def test_wrapper_loaded_in_the_child_runs() -> None:
    child = ("wrapper = One()", "wrapper(x)", "wrapper.close()", "del wrapper")
    assert run(*child) == ["engine", "release", "destructor", *PARENT]
