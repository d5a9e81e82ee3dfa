"""`lab.tune` and its command, on a backend whose parameters are slow or wrong on request."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import NotVerifiedError, ParamsError
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packages.core.tests.cli.conftest import Run

#: An engine that sleeps, as a parameter of its load and one of its build request.
SLEEPY = '''
import contextlib, os, signal, time
from typing import ClassVar
import enginebay as eb
from enginebay_testing import loopback

class SleepyParams(eb.BackendParams):
    """Parameters.

    Args:
        nap: Milliseconds of each call.
        gain: Factor of the outputs.
        rest: Milliseconds of each call, built into the engine.
        seed: A parameter that may change anything.
    """
    file_name: eb.FileName = eb.FileName("model", suffix=".onnx")
    nap: float = 20.0
    gain: float = 1.0
    rest: float = 20.0
    seed: int = 0
    speed_values: ClassVar = {
        "nap": (2.0, 40.0),
        "gain": (1.0, 3.0),
        "rest": lambda params: (params.rest / 10, params.nap / 8),
    }

    @property
    def run_time_fields(self):
        return ("nap", "gain")

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name="sleepy", irs=("onnx",), params=SleepyParams, api_version=1)

@eb.hookimpl
def to_backend(request):
    if request.params.rest < 0.5:
        raise eb.EnginebayError("nobody rests that little")
    rest = request.work_dir / "rest.txt"
    rest.write_text(str(request.params.rest))
    return [*loopback.to_backend(request), rest]

class Sleepy(loopback.LoopbackWrapper):
    def __init__(self, request):
        super().__init__(request)
        self._pause = float((request.directory / request.files[1]).read_text())
        self._pause += request.params.nap

    def execute(self, feed):
        if len(feed["input"]) == 33 and "INTERRUPT" in os.environ:
            process, flag = os.environ["INTERRUPT"].split()
            with contextlib.suppress(FileExistsError):  # once, by one of two engines
                os.mkdir(flag)
                os.kill(int(process), signal.SIGINT)
        time.sleep(self._pause / 1000 * (1 + len(feed["input"]) / 8))
        return super().execute(feed)

@eb.hookimpl
def build_wrapper(request):
    return Sleepy(request)
'''


@pytest.fixture(scope="module")
def sleepy() -> Iterator[Path]:
    with temporary_backend("sleepy", SLEEPY) as folder:
        yield folder


@pytest.fixture(autouse=True)
def _allowed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "loopback,sleepy")


@pytest.fixture(scope="module")
def artifact(sleepy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sleepy") / "net"
    options = {"dynamic": ["batch"], "export": {"keep_ir": True, "exporter": "torchscript"}}
    eb.deploy(nn.Linear(4, 3), torch.ones(2, 4), backend="sleepy", work_dir=folder, **options)
    return folder


def test_the_fastest_verified_setting_becomes_an_artifact(artifact: Path, tmp_path: Path) -> None:
    tuning = lab.tune(artifact, work_dir=tmp_path / "fast", duration=2)
    rows = {row.label: row for row in tuning.rows}
    assert rows["nap=2.0 gain=3.0"].verdict == "mismatched"
    assert rows["nap=2.0 gain=3.0"].speed is None
    assert "nap=40.0" in rows
    assert tuning.chosen
    assert tuning.chosen.params == {"nap": 2.0, "rest": 2.0}
    assert tuning.chosen.ratio
    assert 2 < tuning.chosen.ratio.low <= tuning.chosen.ratio.value
    assert rows["nap=2.0 rest=0.25"].reason.endswith("nobody rests that little")
    made = eb.open_artifact(tmp_path / "fast")
    assert tuning.written == str(made.path)
    assert made.verdict == "verified"
    assert (made.manifest.params["nap"], made.manifest.params["rest"]) == (2.0, 2.0)
    assert (made.path / "rest.txt").read_text() == "2.0"
    assert made.inputs == eb.open_artifact(artifact).inputs
    assert made.manifest.recipe is None
    recorded = json.loads((made.path / "tuning.json").read_text())
    assert recorded["outcome"] == tuning.outcome
    assert eb.verify(made).verdict == "verified"
    again = lab.tune(made, work_dir=tmp_path / "again", params={"nap": [2.0]}, duration=0.3)
    assert again.outcome == "no setting is faster beyond the noise; nothing written"
    assert not (tmp_path / "again").exists()


def test_without_the_ir_what_is_built_in_is_not_tried(
    artifact: Path, tmp_path: Path, sleepy: Path
) -> None:
    options = {"backend": "sleepy", "export": {"exporter": "torchscript"}}
    eb.deploy(nn.Linear(4, 3), torch.ones(2, 4), work_dir=tmp_path / "net", **options)
    values = {"rest": [2.0], "nap": [40.0]}
    tuning = lab.tune(tmp_path / "net", work_dir=tmp_path / "new", params=values, duration=0.3)
    assert tuning.notes[0] == "not tried: rest, which requires an artifact with --keep-ir"
    assert [row.label for row in tuning.rows] == ["as it is", "nap=40.0"]
    assert tuning.written is None


def test_the_most_items_within_the_latency(cli: Run, artifact: Path, tmp_path: Path) -> None:
    words = ("--batch", "8", "32", "--axis", "nap=2", "--duration", "2")
    out = tmp_path / "fast"
    # 32 items take 110 ms and 8 items 44 ms, of which a busy machine makes more.
    ran = cli("tune", str(artifact), "--latency-ms", "80", "--work-dir", str(out), *words, "--json")
    assert ran.code == 0
    assert ran.document["kind"] == "tuning"
    assert ran.document["chosen"]["speed"]["batch"] == 8
    assert ran.document["outcome"].startswith("batch 8: ")
    assert "within 80 ms; nap=2.0 is 1." in ran.document["outcome"]
    none = cli("tune", str(artifact), "--latency-ms", "1", "--work-dir", str(out), *words)
    assert none.code == 2, "the folder exists"
    none = cli("tune", str(artifact), "--latency-ms", "1", "--batch", "1", "--axis", "nap=40")
    assert none.code == 1
    assert "fastest  no call is within 1 ms: the fastest takes " in none.out
    assert not artifact.with_name("net-tuned").exists()


WRONG = {
    ("--latency-ms", "0"): "error: 'latency_ms' is 0, expected a positive number\n",
    ("--batch", "0"): "error: 'batches' is 0, expected an integer of 1 or more\n",
    ("--axis", "naps=1"): "error: unknown parameter 'naps' for sleepy\nhint: did you mean 'nap'?\n",
    ("--axis", "nap="): "error: --axis nap= has no values\nhint: --axis 'threads=1 2'\n",
    ("--axis", "nap=1", "--axis", "nap=2"): (
        "error: parameter 'nap' is specified twice\nhint: remove one of them\n"
    ),
    ("--axis", "file_name=a"): (
        "error: parameter 'file_name' of sleepy may change more than the speed\n"
        "hint: parameters to try: nap, gain, rest\n"
    ),
    ("--axis", "seed=1"): (
        "error: parameter 'seed' of sleepy may change more than the speed\n"
        "hint: parameters to try: nap, gain, rest\n"
    ),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_argument_is_one_error(cli: Run, artifact: Path, words: tuple[str, ...]) -> None:
    ran = cli("tune", str(artifact), *words)
    assert (ran.code, ran.err, ran.out) == (2, WRONG[words], "")


def test_a_wrong_artifact_is_one_error(cli: Run, tmp_path: Path, artifact: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "empty" in cli("tune", str(tmp_path / "empty")).err
    assert cli("tune", str(tmp_path / "none")).code == 1
    ran = cli("tune", str(artifact), "--work-dir", str(artifact))
    assert ran.err.startswith(f'error: "{artifact}" exists and contains an artifact\nhint: ')


def test_a_missing_backend_is_one_error(
    cli: Run, artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "loopback")
    ran = cli("tune", str(artifact))
    assert ran.code == 3
    assert ran.err.count("error: ") == 1
    assert "sleepy" in ran.err


def test_a_fixed_batch_and_a_damaged_file(cli: Run, tmp_path: Path, loopback: Path) -> None:
    options = {"backend": "loopback", "export": {"exporter": "torchscript"}}
    eb.deploy(nn.ReLU(), torch.ones(2, 4), work_dir=tmp_path / "net", **options)
    ran = cli("tune", str(tmp_path / "net"), "--batch", "8")
    assert ran.code == 2
    assert ran.err.startswith("error: the batch size is fixed: the model takes input float32[2, 4]")
    tuning = lab.tune(tmp_path / "net", work_dir=tmp_path / "new", duration=0.1)
    assert [row.label for row in tuning.rows] == ["as it is"], "its backend declares nothing"
    (tmp_path / "net" / "model.onnx").write_bytes(b"")
    ran = cli("tune", str(tmp_path / "net"))
    assert ran.code == 1
    assert ran.err.count("error: ") == 1
    assert "model.onnx" in ran.err


def test_what_is_mismatched_as_it_is_cannot_be_tuned(tmp_path: Path, sleepy: Path) -> None:
    options = {"backend": "sleepy", "export": {"exporter": "torchscript"}, "params": {"gain": 2.0}}
    verify = {"allow_mismatch": True}
    net, x = nn.Linear(4, 3), torch.ones(2, 4)
    eb.deploy(net, x, work_dir=tmp_path / "net", verify=verify, **options)
    with pytest.raises(NotVerifiedError, match="net' is mismatched as it is: "):
        lab.tune(tmp_path / "net", work_dir=tmp_path / "new")


def test_an_invalid_value_is_refused_before_anything_runs(artifact: Path, tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="nap"):
        lab.tune(artifact, work_dir=tmp_path / "new", params={"nap": ["x"]})


def test_an_error_at_the_end_shows_what_was_measured(
    cli: Run, artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("enginebay_lab.tuning.tune_artifact.staging", fill_disk)
    words = ("--axis", "nap=2", "--duration", "1")
    ran = cli("tune", str(artifact), "--work-dir", str(tmp_path / "new"), *words)
    assert ran.code == 1
    assert re.search("nap=2.0 +verified", ran.out)
    assert " ended early; nothing written" in ran.out
    assert ran.err.count("error: ") == 1


def test_ctrl_c_shows_what_was_measured(
    cli: Run, artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERRUPT", f"{os.getpid()} {tmp_path / 'interrupted'}")
    out = tmp_path / "out" / "new"
    axes = ("--axis", "gain=3", "--axis", "nap=1")
    ran = cli("tune", str(artifact), "--work-dir", str(out), "--batch", "33", *axes)
    assert ran.code == 130
    assert re.search("gain=3.0 +mismatched", ran.out)
    assert "fastest   ended early; nothing written" in ran.out
    assert not out.parent.exists()
