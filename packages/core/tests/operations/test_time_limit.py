"""The time limit ends a conversion and all its processes, in a deployment and alone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.cli import main
from enginebay.errors import ChildTimeoutError, NotVerifiedError, UsageError
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from pathlib import Path

BACKEND = """
from enginebay_testing.loopback import *
from enginebay_testing import loopback
from enginebay.authors import isolation
from enginebay.errors import ConversionError, IsolationError

check_env, build_wrapper = loopback.check_env, loopback.build_wrapper

@eb.hookimpl
def backend_info():
    irs = ("torchscript", "onnx")
    return eb.BackendInfo(name="slow", irs=irs, params=LoopbackParams, api_version=1)

@eb.hookimpl
def to_backend(request):
"""

#: Sleeps in a child process, tries a second way, and wraps the error as backends do.
IN_PROCESSES = """
    for way in ("first", "second"):
        request.progress(way)
        try:
            isolation.run(["sleep", "600"], timeout=600)
        except IsolationError as err:
            last = err
    raise ConversionError(f"every way failed: {last}") from last
"""

IN_THIS_PROCESS = """
    while True:
        isolation.check_time_limit()
"""


@pytest.mark.parametrize("work", [IN_PROCESSES, IN_THIS_PROCESS])
def test_conversion_ends_at_its_time_limit(work: str, tmp_path: Path) -> None:
    started = time.monotonic()
    with temporary_backend("slow", BACKEND + work), pytest.raises(ChildTimeoutError) as caught:
        eb.deploy(
            nn.ReLU(),
            torch.ones(1, 3),
            backend="slow",
            work_dir=tmp_path / "out",
            verify=eb.VerifyOptions(timeout=0.5),
        )
    assert str(caught.value) == "the conversion ran past its time limit of 0.5 s"
    assert caught.value.hint == "--timeout 1"
    assert time.monotonic() - started < 300
    assert not list(tmp_path.iterdir())


def test_engine_beyond_the_time_limit_is_hinted_at_a_longer_one(tmp_path: Path) -> None:
    hanging = (
        "    return loopback.to_backend(request)\n\n"
        "@eb.hookimpl\ndef build_wrapper(request): __import__('time').sleep(600)\n"
    )
    source = BACKEND.replace(
        "check_env, build_wrapper = loopback.check_env, loopback.build_wrapper",
        "check_env = loopback.check_env",
    ).replace('"torchscript", "onnx"', '"onnx",')
    with temporary_backend("slow", source + hanging), pytest.raises(NotVerifiedError) as caught:
        eb.deploy(
            nn.ReLU(),
            torch.ones(1, 3),
            backend="slow",
            work_dir=tmp_path / "out",
            verify=eb.VerifyOptions(timeout=0.75),
        )
    assert "ran past its time limit of 0.75 s" in str(caught.value)
    assert caught.value.hint == (
        "allow more time: --timeout 1.5; --allow-mismatch publishes the artifact with this verdict"
    )


@pytest.mark.parametrize("work", [IN_PROCESSES, IN_THIS_PROCESS])
def test_conversion_alone_has_the_same_time_limit(work: str, tmp_path: Path) -> None:
    ir = eb.export(nn.ReLU(), torch.ones(1, 3), path=tmp_path / "relu.onnx")
    with temporary_backend("slow", BACKEND + work), pytest.raises(ChildTimeoutError) as caught:
        eb.convert(ir, backend="slow", work_dir=tmp_path / "out", timeout=0.5)
    assert str(caught.value) == "the conversion ran past its time limit of 0.5 s"
    assert caught.value.hint == "--timeout 1"
    assert not (tmp_path / "out").exists()


def test_time_limit_of_a_conversion_must_be_positive(loopback: str, tmp_path: Path) -> None:
    ir = eb.export(nn.ReLU(), torch.ones(1, 3), path=tmp_path / "relu.onnx")
    with pytest.raises(UsageError, match=r"^invalid timeout of 0 seconds: expected more than 0$"):
        eb.convert(ir, backend=loopback, work_dir=tmp_path / "out", timeout=0)


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_time_limit_of_a_verification_must_be_positive(
    loopback: str, tmp_path: Path, limit: float
) -> None:
    made = eb.deploy(nn.ReLU(), torch.ones(1, 3), backend=loopback, work_dir=tmp_path / "out")
    with pytest.raises(UsageError, match=r"^invalid timeout of .+ seconds: expected more than 0$"):
        eb.verify(made.artifact, options={"timeout": limit})


@pytest.mark.parametrize("limit", [None, "3", True])
def test_a_time_limit_that_is_no_number_is_refused(loopback: str, limit: Any) -> None:
    with pytest.raises(UsageError, match=r"^invalid timeout .+: expected a number of seconds$"):
        eb.convert("net.onnx", backend=loopback, work_dir="out", timeout=limit)


def test_convert_command_has_the_time_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    eb.export(nn.ReLU(), torch.ones(1, 3), path=tmp_path / "relu.onnx")
    arguments = ["convert", "slow", str(tmp_path / "relu.onnx"), "--timeout", "0.5"]
    with temporary_backend("slow", BACKEND + IN_THIS_PROCESS):
        assert main([*arguments, "--work-dir", str(tmp_path / "out")]) == 1
    assert "the conversion ran past its time limit of 0.5 s" in capsys.readouterr().err
