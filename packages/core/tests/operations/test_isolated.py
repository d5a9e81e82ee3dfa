"""An engine in a child process returns the same outputs, and its crash stays in the child."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ChildCrashedError, ConversionError, InputError, UsageError
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("loopback")

CRASHING = (
    "from enginebay_testing.loopback import *\n"
    "from enginebay_testing import loopback\n"
    "@eb.hookimpl\n"
    "def backend_info():\n"
    "    return eb.BackendInfo(name='crashing', irs=('onnx',), params=LoopbackParams)\n"
    "class Crashing(LoopbackWrapper):\n"
    "    def execute(self, feed):\n"
    "        if any((x < 0).any() for x in feed.values()):\n"
    "            __import__('os').kill(__import__('os').getpid(), 11)\n"
    "        return super().execute(feed)\n"
    "@eb.hookimpl\n"
    "def build_wrapper(request): return Crashing(request)\n"
    "check_env, to_backend = loopback.check_env, loopback.to_backend\n"
)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> eb.Artifact:
    folder = tmp_path_factory.mktemp("isolated") / "net"
    dynamic = {"input": {0: ("batch", 0, 8)}}
    return eb.deploy(nn.Tanh(), torch.randn(2, 3), work_dir=folder, dynamic=dynamic).artifact


@pytest.fixture
def isolated(artifact: eb.Artifact) -> Iterator[eb.Wrapper]:
    with eb.load(artifact, isolated=True) as wrapper:
        yield wrapper


def test_isolated_engine_returns_the_same_outputs(
    artifact: eb.Artifact, isolated: eb.Wrapper
) -> None:
    x = np.linspace(-3, 3, 12, dtype="f4").reshape(3, 4)[:, ::2][:, :1].repeat(3, axis=1)
    with eb.load(artifact) as here:
        assert isolated.receipt == here.receipt
        for given in (x, x[::-1], x[:0], np.asfortranarray(x)):
            name = isolated.input_names[0]
            expected, outputs = here({name: given}), isolated({name: given})
            assert outputs.keys() == expected.keys()
            for key, value in expected.items():
                assert np.array_equal(outputs[key], value)
                assert outputs[key].dtype == value.dtype
                assert outputs[key].flags.writeable


def test_tensors_come_back_as_tensors(isolated: eb.Wrapper) -> None:
    x = torch.randn(2, 3)
    output = isolated(x)
    assert torch.allclose(output, x.tanh())


def test_isolated_engine_refuses_unknown_inputs(isolated: eb.Wrapper) -> None:
    with pytest.raises(InputError):
        isolated({"nothing": np.ones((2, 3), "f4")})


def test_isolated_calls_from_threads_do_not_mix(isolated: eb.Wrapper) -> None:
    results: dict[int, float] = {}

    def call(number: int) -> None:
        for _ in range(20):
            y = isolated(np.full((1, 3), number, "f4"))
            results[number] = float(y[0, 0])

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == pytest.approx({number: np.tanh(number) for number in range(4)}, abs=1e-6)


def test_closed_isolated_engine_refuses_calls(artifact: eb.Artifact) -> None:
    wrapper = eb.load(artifact, isolated=True)
    wrapper.close()
    wrapper.close()
    with pytest.raises(UsageError, match="closed"):
        wrapper(np.ones((1, 3), "f4"))


def deploy_crashing(folder: Path) -> eb.Artifact:
    return eb.deploy(
        nn.ReLU(),
        torch.ones(1, 3),
        backend="crashing",
        work_dir=folder / "out",
        verify=eb.VerifyOptions(probes=0),
    ).artifact


def test_crash_in_the_child_is_an_error_at_every_call(tmp_path: Path) -> None:
    with temporary_backend("crashing", CRASHING):
        made = deploy_crashing(tmp_path)
        with eb.load(made, isolated=True) as wrapper:
            wrapper(np.ones((1, 3), "f4"))
            for _ in range(2):
                with pytest.raises(ChildCrashedError, match=r"'crashing'.* SIGSEGV"):
                    wrapper(-np.ones((1, 3), "f4"))


def test_failed_load_leaves_no_child_process(artifact: eb.Artifact, tmp_path: Path) -> None:
    source = CRASHING.replace(
        "def build_wrapper(request): return Crashing(request)",
        "def build_wrapper(request):\n"
        "    if request.directory.name == 'out':\n"
        "        raise OSError('no such device')\n"
        "    return Crashing(request)",
    )
    before = set(_children())
    with temporary_backend("crashing", source):
        made = deploy_crashing(tmp_path)
        with pytest.raises(ConversionError, match="no such device"):
            eb.load(made, isolated=True)
    assert set(_children()) <= before


def _children() -> list[str]:
    file = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    try:
        return file.read_text(encoding="ascii").split()
    except OSError:  # not on this system
        return []


def test_samples_of_another_artifact_verify_against_their_outputs(
    artifact: eb.Artifact, tmp_path: Path
) -> None:
    other = eb.deploy(nn.Tanh(), torch.randn(2, 3), work_dir=tmp_path / "other").artifact
    assert eb.verify(artifact, other.samples()[:1]).verdict == "verified"
    wrong = [s._replace(outputs={n: v + 1 for n, v in s.outputs.items()}) for s in other.samples()]
    assert eb.verify(artifact, wrong[:1]).verdict == "mismatched"
