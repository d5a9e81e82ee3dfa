"""``load(…, params=…)`` and ``run --param``: other values of run-time parameters."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import enginebay as eb
from enginebay.errors import ParamsError
from enginebay_testing import temporary_backend
from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from pathlib import Path

ONES = np.ones((2, 3), np.float32)


@pytest.fixture(scope="module")
def artifact(loopback: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run_time") / "net"
    eb.deploy(torch.nn.ReLU(), torch.ones(2, 3), backend=loopback, work_dir=folder)
    return folder


@pytest.mark.parametrize("isolated", [False, True])
def test_a_load_changes_a_run_time_parameter_and_not_the_artifact(
    artifact: Path, isolated: bool
) -> None:
    before = {file: file.read_bytes() for file in artifact.rglob("*") if file.is_file()}
    with eb.load(artifact, params={"gain": 3.0}, isolated=isolated) as wrapper:
        assert (wrapper(ONES) == 3 * ONES).all()
    with eb.load(artifact, params={}) as wrapper:
        assert (wrapper(ONES) == ONES).all()
    assert before == {file: file.read_bytes() for file in artifact.rglob("*") if file.is_file()}


def test_the_device_is_a_run_time_parameter_too(artifact: Path) -> None:
    with pytest.raises(eb.EnginebayError, match="has no device 'npu': expected cpu"):
        eb.load(artifact, params={"device": "npu"})
    eb.load(artifact, params={"device": "npu"}, device="cpu").close()


def test_a_parameter_that_is_built_in_is_refused(artifact: Path) -> None:
    with pytest.raises(ParamsError) as caught:
        eb.load(artifact, params={"gain": 3.0, "file_name": "other"})
    message = re.sub(r"'.*net'", "'net'", caught.value.args[0])
    assert message == "file_name is built into 'net': a load can change device, gain"
    assert caught.value.hint == "deploy the model again with another file_name"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"gian": 3.0}, "LoopbackParams got 'gian', which is not one of its fields.*'gain'"),
        ({"gain": "3"}, "'3' does not fit LoopbackParams.gain: expected float, found str"),
        ({3: 3}, "LoopbackParams got '3'"),
    ],
)
def test_what_is_given_is_checked_as_in_deploy(
    artifact: Path, params: dict[Any, Any], message: str
) -> None:
    with pytest.raises(ParamsError, match=f"(?s){message}"):
        eb.load(artifact, params=params)


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Any:
    return partial(call_command, capfd)


@pytest.mark.parametrize("word", ["gain=3", "gain=3.0"])
def test_run_takes_it_as_a_word(cli: Any, artifact: Path, word: str) -> None:
    ran = cli("run", str(artifact), "--param", word, "--json")
    assert ran.code == 0
    assert ran.document["outputs"][0]["max"] == 3.0


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("gain=three", "argument --gain: 'three' does not fit LoopbackParams.gain: expected float"),
        (
            "gian=3",
            "arguments of enginebay convert loopback\nhint: did you mean --gain?",
        ),
        ("gain", "argument --gain: expected one argument\nhint: enginebay convert loopback -h"),
        ("=3", "'--=3' is not among the arguments of enginebay convert loopback\n"),
        ("", "error: "),
        ("file_name=x", "file_name is built into "),
        ("work_dir=x", "work_dir is built into "),
    ],
)
def test_a_wrong_word_is_one_error(cli: Any, artifact: Path, word: str, message: str) -> None:
    ran = cli("run", str(artifact), "--param", word)
    assert ran.code == 2
    assert message in ran.err


def test_switches_lists_and_tables_are_words_too(cli: Any, tmp_path: Path) -> None:
    source = """
import enginebay as eb
from enginebay_testing import loopback

class PARAMS(eb.BackendParams):
    '''Parameters.

    Args:
        file_name: The name.
        light: A switch.
        lanes: A list.
        options: A table.
    '''
    file_name: eb.FileName = eb.FileName("model", suffix=".onnx")
    light: bool = True
    lanes: tuple[int, ...] = ()
    options: dict[str, str] = {}
    gain: float = 1.0

    @property
    def run_time_fields(self):
        return ("light", "lanes", "options")

to_backend = loopback.to_backend

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name="words", irs=("onnx",), params=PARAMS)

@eb.hookimpl
def build_wrapper(request):
    wrapper, params = loopback.LoopbackWrapper(request), request.params
    kind = type(wrapper)
    class Shown(kind):
        receipt = property(lambda self: eb.Receipt(
            engine=f"{params.light} {params.lanes} {params.options}", device="cpu"))
    wrapper.__class__ = Shown
    return wrapper
"""
    words = ("no-light", "lanes=1,2", "lanes=3", "options=a=b=c", "options=d=e")
    with temporary_backend("words", source):
        eb.deploy(torch.nn.ReLU(), torch.ones(2, 3), backend="words", work_dir=tmp_path / "net")
        flags = [flag for word in words for flag in ("--param", word)]
        ran = cli("run", str(tmp_path / "net"), *flags, "--json")
    assert ran.code == 0
    expected = "False (1, 2, 3) {'a': 'b=c', 'd': 'e'}"
    assert ran.document["receipt"]["engine"] == expected


def test_verify_takes_other_values_too(artifact: Path) -> None:
    assert eb.verify(artifact, params={"gain": 1.0}).verdict == "verified"
    assert eb.verify(artifact, params={"gain": 3.0}).verdict == "mismatched"
    with pytest.raises(ParamsError, match="file_name is built into "):
        eb.verify(artifact, params={"file_name": "other"})
