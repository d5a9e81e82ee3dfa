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
from enginebay.errors import NotVerifiedError, ParamsError, UsageError
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
        lucky: Whether calls are fast, until the engine was loaded a few times.
        wrong_from: The batch size from which outputs are wrong; calls are faster then.
        wrong_after: The number of calls with one batch size after which outputs are wrong.
        seed: A parameter that may change anything.
    """
    file_name: eb.FileName = eb.FileName("model", suffix=".onnx")
    nap: float = 20.0
    gain: float = 1.0
    rest: float = 20.0
    lucky: bool = False
    wrong_from: int = 1000
    wrong_after: int = 1000000
    seed: int = 0
    speed_values: ClassVar = {
        "nap": (2.0, 40.0),
        "gain": (1.0, 3.0),
        "rest": lambda params: (params.rest / 10, params.nap / 8),
        "lucky": (),
        "wrong_from": (),
        "wrong_after": (),
    }

    @property
    def run_time_fields(self):
        return ("nap", "gain", "lucky", "wrong_from", "wrong_after")

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
        self._params, self._size, self._calls = request.params, 0, 0
        if request.params.wrong_from < 1000:
            self._pause *= 0.5
        if request.params.lucky:
            loads = request.directory.parent / "loads.txt"
            loads.open("a").write(".")
            # Twice to verify, and once to measure.
            self._pause *= 0.2 if loads.stat().st_size <= 3 else 1

    def execute(self, feed):
        size = len(feed["input"])
        self._calls = self._calls + 1 if size == self._size else 1
        self._size = size
        if size == 33 and "INTERRUPT" in os.environ:
            process, flag = os.environ["INTERRUPT"].split()
            with contextlib.suppress(FileExistsError):  # once, by one of two engines
                os.mkdir(flag)
                os.kill(int(process), signal.SIGINT)
        time.sleep(self._pause / 1000 * (1 + size / 8))
        is_wrong = size >= self._params.wrong_from
        is_wrong |= self._calls > self._params.wrong_after
        return [output + is_wrong for output in super().execute(feed)]

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
    before, after = eb.open_artifact(artifact).manifest, made.manifest
    assert after.created >= before.created
    assert after.verification.basis == before.verification.basis
    assert after.verification.reference == "the recorded outputs of the PyTorch model, unpatched"
    recorded = json.loads((made.path / "tuning.json").read_text())
    assert recorded["outcome"] == tuning.outcome
    assert eb.verify(made).verdict == "verified"
    again = lab.tune(made, work_dir=tmp_path / "again", params={"nap": [2.0]}, duration=0.3)
    assert again.outcome == "no other setting was tried; nothing written"
    assert not (tmp_path / "again").exists()
    # The reference is named once, however often an artifact is tuned.
    assert eb.verify(made).reference == after.verification.reference


def test_a_parameter_that_was_fast_by_luck_is_dropped(artifact: Path, tmp_path: Path) -> None:
    (artifact.parent / "loads.txt").unlink(missing_ok=True)
    values = {"lucky": [True], "nap": [2.0]}
    tuning = lab.tune(artifact, work_dir=tmp_path / "new", params=values, duration=1)
    labels = [row.label for row in tuning.rows]
    assert labels == ["as it is", "lucky=True", "lucky=True nap=2.0", "nap=2.0"]
    assert tuning.chosen
    assert tuning.chosen.params == {"nap": 2.0}
    assert eb.open_artifact(tmp_path / "new").manifest.params["lucky"] is False


@pytest.mark.parametrize(
    ("wrong", "size"), [("wrong_from=40", 40), ("wrong_from=40", 8), ("wrong_after=30", 1)]
)
def test_outputs_are_compared_at_the_batch_size_and_after_the_last_call(
    cli: Run, artifact: Path, tmp_path: Path, wrong: str, size: int
) -> None:
    name, _, value = wrong.partition("=")
    words = ("--batch", str(size), "--axis", wrong, "--duration", "2", "--json")
    ran = cli("tune", str(artifact), "--work-dir", str(tmp_path / "new"), *words)
    as_it_is, changed = ran.document["rows"]
    is_right = int(value) > size and name == "wrong_from"
    assert as_it_is["verdict"] == "verified"
    assert changed["verdict"] == ("verified" if is_right else "mismatched")
    assert is_right or changed["reason"].startswith(f'batch {size}: "output" at ')
    assert bool(ran.document["written"]) == is_right
    beyond = [
        note for note in ran.document["notes"] if note.startswith("'batch' is 20, verified: ")
    ]
    assert len(beyond) == (size == 20)


def test_what_is_wrong_at_one_batch_size_is_not_chosen_for_another(
    artifact: Path, tmp_path: Path
) -> None:
    values = {"wrong_from": [40]}
    sizes = (8, 40)
    tuning = lab.tune(artifact, work_dir=tmp_path / "new", params=values, batches=sizes, duration=1)
    verdicts = {(row.label, row.speed.batch): row.verdict for row in tuning.rows if row.speed}
    assert verdicts["wrong_from=40", 8] == "verified"
    assert verdicts["wrong_from=40", 40] == "mismatched"
    assert tuning.chosen
    assert not tuning.chosen.params
    assert tuning.written is None


@pytest.mark.parametrize("text", ["yes no", "True", "false 1"])
def test_values_of_a_switch(cli: Run, artifact: Path, tmp_path: Path, text: str) -> None:
    words = ("--axis", f"lucky={text}", "--duration", "0.1", "--json")
    ran = cli("tune", str(artifact), "--work-dir", str(tmp_path / "new"), *words)
    assert [row["params"] for row in ran.document["rows"]] == [{}, {"lucky": True}]


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
    ("--axis", "nap="): "error: --axis nap= has no values\nhint: --axis 'nap=VALUE VALUE'\n",
    ("--axis", "lucky=maybe"): (
        "error: --axis lucky=maybe: argument --lucky/--no-lucky: ignored explicit argument "
        "'maybe'\nhint: --axis 'lucky=yes no'\n"
    ),
    ("--timeout", "0"): "error: invalid timeout of 0 seconds: expected more than 0\n",
    ("--timeout", "nan"): "error: invalid timeout of nan seconds: expected more than 0\n",
    ("--axis", "nap=1", "--axis", "nap=2"): (
        "error: parameter 'nap' is specified twice\nhint: remove one of them\n"
    ),
    ("--axis", "file_name=a"): (
        "error: parameter 'file_name' of sleepy may change more than the speed\n"
        "hint: parameters to try: nap, gain, rest, lucky, wrong_from, wrong_after\n"
    ),
    ("--axis", "seed=1"): (
        "error: parameter 'seed' of sleepy may change more than the speed\n"
        "hint: parameters to try: nap, gain, rest, lucky, wrong_from, wrong_after\n"
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


def test_what_is_recorded_as_mismatched_needs_tolerances(tmp_path: Path, sleepy: Path) -> None:
    options = {
        "backend": "sleepy",
        "export": {"exporter": "torchscript"},
        "params": {"gain": 1.001},
    }
    verify = {"allow_mismatch": True, "rtol": 1e-9, "atol": 1e-9}
    net, x = nn.Linear(4, 3), torch.ones(2, 4)
    done = eb.deploy(net, x, work_dir=tmp_path / "net", verify=verify, **options)
    values = {"params": {"nap": [40.0]}, "duration": 0.1}
    with pytest.raises(NotVerifiedError, match="net' is mismatched as it is: "):
        lab.tune(done.artifact, work_dir=tmp_path / "new", **values)
    tuning = lab.tune(done.artifact, work_dir=tmp_path / "new", verify={"rtol": 0.01}, **values)
    assert [row.verdict for row in tuning.rows] == ["verified", "verified"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["x"], "nap"),
        ("12", "the values of 'nap' are '12', expected a list"),
        (2, "the values of 'nap' are 2, expected a list"),
    ],
)
def test_an_invalid_value_is_refused_before_anything_runs(
    artifact: Path, tmp_path: Path, values: object, message: str
) -> None:
    with pytest.raises(ParamsError, match=message):
        lab.tune(artifact, work_dir=tmp_path / "new", params={"nap": values})


@pytest.mark.parametrize(
    "argument", [{"duration": "1"}, {"duration": True}, {"latency_ms": "5"}, {"batches": (True,)}]
)
def test_a_number_of_another_type_is_refused(
    artifact: Path, tmp_path: Path, argument: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match=f"'{next(iter(argument))}' is "):
        lab.tune(artifact, work_dir=tmp_path / "new", **argument)


def test_values_may_come_from_an_iterator(artifact: Path, tmp_path: Path) -> None:
    values = {"nap": (value for value in [40.0])}
    tuning = lab.tune(artifact, work_dir=tmp_path / "new", params=values, duration=0.1)
    assert [row.label for row in tuning.rows] == ["as it is", "nap=40.0"]


@pytest.mark.parametrize("values", [{}, {"nap": []}, {"nap": [20.0]}])
def test_nothing_to_try_is_said(artifact: Path, tmp_path: Path, values: dict[str, object]) -> None:
    tuning = lab.tune(artifact, work_dir=tmp_path / "new", params=values, duration=0.1)
    assert tuning.outcome == "no other setting was tried; nothing written"


def test_the_folder_is_refused_before_the_search(cli: Run, artifact: Path, tmp_path: Path) -> None:
    inside = cli("tune", str(artifact), "--work-dir", str(artifact / "sub"))
    assert inside.code == 2
    assert inside.err.startswith(f'error: "{artifact / "sub"}" is inside the artifact "{artifact}"')
    closed = cli("tune", str(artifact), "--work-dir", "/proc/closed")
    assert (closed.code, closed.out) == (1, "")
    assert closed.err.startswith('error: the artifact "/proc/closed" cannot be written: ')


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_error_at_the_end_shows_what_was_measured(
    cli: Run,
    artifact: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: tuple[str, ...],
) -> None:
    def fill_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("enginebay_lab.tuning.tune_artifact.write_whole", fill_disk)
    words = ("--axis", "nap=2", "--duration", "1", *form)
    ran = cli("tune", str(artifact), "--work-dir", str(tmp_path / "new"), *words)
    assert ran.code == 1
    shown = ran.err if form else ran.out
    assert re.search("nap=2.0 +verified", shown)
    assert " ended early; nothing written" in shown
    assert ran.document["error"] if form else ran.err.count("error: ") == 1
    assert "choose another --work-dir" in ran.out + ran.err


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
