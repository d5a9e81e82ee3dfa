"""Failures of engines, items, files and processes cost an evaluation only their own results."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import ArtifactError, InputError, UsageError
from enginebay_lab.executors.local import local_executor
from enginebay_testing import temporary_backend
from enginebay_testing.command_runs import command, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from conftest import Run

#: The artifact "bad" is wrong on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the recorded verdict of:enginebay.VerdictWarning")

DATA = ("--data", "data.npz", "--model", "net.py:build", "--metric", "accuracy")

#: An engine that fails on item 20 in the way that an environment variable names.
MOODY = """\
import ctypes, os, time
import numpy as np
import enginebay as eb
import enginebay_lab as lab
from enginebay_testing import loopback


class Moody(loopback.LoopbackWrapper):
    calls = 0

    def execute(self, feed):
        (output,) = super().execute(feed)
        self.calls += 1
        mood = os.environ.get("MOOD") if self.calls > 20 else None
        if mood == "crash":
            ctypes.string_at(0)
        if mood == "hang":
            time.sleep(600)
        if mood == "raise":
            raise RuntimeError("out of oil")
        if mood == "nan":
            return [output * np.float32("nan")]
        if mood == "shape":
            return [output[:, :2]]
        return [output]


@eb.hookimpl
def backend_info():
    return eb.BackendInfo(
        name="moody", irs=("onnx",), params=loopback.LoopbackParams, api_version=1
    )


to_backend = loopback.to_backend


@eb.hookimpl
def build_wrapper(request):
    return Moody(request)
"""


@pytest.fixture(scope="module")
def _moody(trained: Path) -> Iterator[None]:
    """The artifact ``moody``, deployed without a failure."""
    namespace: dict[str, Any] = {}
    exec((trained / "net.py").read_text(), namespace)
    with temporary_backend("moody", MOODY):
        eb.deploy(
            *namespace["build"](),
            backend="moody",
            work_dir=trained / "moody",
            export=eb.ExportOptions(exporter="torchscript"),
            verify=eb.VerifyOptions(probes=0),
        )
        yield


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("_moody", "here")
@pytest.mark.parametrize(
    ("mood", "error"),
    [
        ("crash", "'moody' ended with SIGSEGV"),
        ("hang", "'moody' ran past its time limit of {limit} s"),
        ("raise", "item 20 of 'data.npz': onnx.reference "),
    ],
)
def test_an_artifact_that_dies_loses_its_own_row(
    mood: str, error: str, monkeypatch: pytest.MonkeyPatch, soon: int
) -> None:
    monkeypatch.setenv("MOOD", mood)
    limit = 3 * soon if mood == "hang" else 600
    found = lab.evaluate(
        ["moody", "good"], "data.npz", "accuracy", model="net.py:build", timeout=limit
    )
    lost, good = found.rows
    assert (good.value, good.count, good.error) == (0.9, 40, "")
    assert lost.error.startswith(error.format(limit=limit))
    assert lost.value is None
    assert found.failures() == [f"'moody': accuracy: {lost.error}"]


@pytest.mark.usefixtures("_moody", "here")
@pytest.mark.parametrize("mood", ["crash", "raise"])
def test_a_worker_loses_the_same_artifact(mood: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOD", mood)

    def found(executor: Executor | None = None) -> lab.Evaluation:
        return lab.evaluate(["moody", "good"], "data.npz", "accuracy", executor=executor)

    with local_executor(1) as executor:
        parts = found(executor)
    assert parts == found()
    assert [bool(row.error) for row in parts.rows] == [True, False]


@pytest.mark.usefixtures("_moody", "here")
@pytest.mark.parametrize("mood", ["nan", "shape"])
def test_wrong_outputs_lower_the_agreement(mood: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOD", mood)
    metrics = ["accuracy", "cosine"]
    row, other = lab.evaluate("moody", "data.npz", metrics, model="net.py:build").rows
    assert row.agreement == 0.5
    assert row.worst[0].error is None
    assert 20 <= row.worst[0].item < 40
    assert other.value is None
    if mood == "nan":
        assert row.value == pytest.approx(0.4)  # the four wrong items are among the first 20
    else:
        assert row.error.startswith("metric 'accuracy' on item ")


def test_items_that_cannot_be_evaluated_are_refused(here: Path) -> None:
    with np.load("data.npz") as data:
        x, target = data["x"], data["target"]
    np.savez("bare.npz", x=x)
    np.savez("other.npz", z=x, target=target)
    np.savez("wide.npz", x=np.zeros((4, 1, 5), np.float32), target=target[:4])
    np.savez("nan.npz", x=np.where(np.arange(40)[:, None, None] == 7, np.nan, x).astype("f4"))
    np.savez("two.npz", x=x, target=np.stack([target, target], 1))

    def message(data: Any, metric: str = "accuracy", artifact: str = "good") -> str:
        with pytest.raises(InputError) as caught:
            lab.evaluate(artifact, data, metric, model="net.py:build")
        return str(caught.value)

    assert (
        message("bare.npz")
        == "item 0 of 'bare.npz' has no target, which metric 'accuracy' requires"
    )
    assert message("other.npz").startswith("item 0 of 'other.npz': unknown input 'z': ")
    assert message("wide.npz").startswith(
        "item 0 of 'wide.npz': input 'x' has size 5 in dimension 1"
    )
    assert message("nan.npz", "cosine") == "item 7 of 'nan.npz': input 'x' contains NaN at [0, 0]"
    assert message([]) == "the list given as data contains no items"
    assert message("two.npz").startswith(
        "metric 'accuracy' on item 0 of 'two.npz': the target has shape (2,), expected (1,)"
    )


def test_artifacts_with_different_inputs_are_refused(here: Path, cli: Run) -> None:
    import torch

    model = torch.nn.Linear(4, 3)
    eb.deploy(
        *(model, torch.zeros(1, 4)),
        backend="loopback",
        work_dir="other",
        export=eb.ExportOptions(input_names=["z"], exporter="torchscript"),
        verify=eb.VerifyOptions(probes=0),
    )
    ran = cli("evaluate", "good", "other", *DATA)
    assert (ran.code, ran.err) == (
        2,
        (
            "error: 'good' and 'other' have different inputs: x float32, and z float32\n"
            "hint: evaluate the artifacts one by one\n"
        ),
    )
    assert cli("evaluate", "good", "good", *DATA).err.startswith(
        "error: artifact 'good' was passed twice"
    )
    assert cli("evaluate", "nowhere", *DATA).code == 1
    with pytest.raises(UsageError, match="no artifact to evaluate"):
        lab.evaluate([], "data.npz", "accuracy")
    shutil.copytree("good", "torn")
    (here / "torn" / "model.onnx").write_bytes(b"")
    with pytest.raises(ArtifactError):
        lab.evaluate("torn", "data.npz", "accuracy")


def read_lines(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def write_counting_metric(tmp_path: Path) -> None:
    """Write a file with a metric that records each of its updates."""
    (tmp_path / "own.py").write_text(
        "from pathlib import Path\n"
        "class Noted:\n"
        "    def __init__(self): self.reset()\n"
        "    def reset(self): self.count = 0\n"
        "    def update(self, outputs, target):\n"
        "        self.count += 1\n"
        "        with open('updates', 'a') as file: file.write('.')\n"
        "    def compute(self): return self.count\n"
    )


def test_resume_does_not_measure_existing_rows_again(here: Path, cli: Run) -> None:
    write_counting_metric(here)
    words = ("--data", "data.npz", "--model", "net.py:build", "--metric", "own.py:Noted")
    assert cli("evaluate", "good", *words, "--output", "rows.jsonl").code == 0
    (row,) = read_lines("rows.jsonl")
    assert (row["schema"], row["artifact"], row["value"]) == (1, "good", 40)
    assert Path("updates").stat().st_size == 80

    ran = cli("evaluate", "good", *words, "--output", "rows.jsonl")
    assert (ran.code, ran.err) == (
        2,
        (
            "error: 'rows.jsonl' already exists\n"
            "hint: add --resume to continue the evaluation, or name a different file\n"
        ),
    )
    ran = cli("evaluate", "good", *words, "--output", "rows.jsonl", "--resume", "--json")
    assert ran.document["rows"][0]["value"] == 40
    assert Path("updates").stat().st_size == 80
    ran = cli("evaluate", "good", "bad", *words, "--output", "rows.jsonl", "--resume", "--json")
    assert [row["artifact"] for row in ran.document["rows"]] == ["good", "bad"]
    assert Path("updates").stat().st_size == 160
    assert [row["artifact"] for row in read_lines("rows.jsonl")] == ["good", "bad"]
    assert not list(here.glob("*.part"))


def test_resume_measures_a_changed_artifact_model_metric_or_data(here: Path) -> None:
    write_counting_metric(here)

    def measured(artifact: str = "good", data: str = "data.npz") -> int:
        before = Path("updates").stat().st_size if Path("updates").exists() else 0
        lab.evaluate(
            artifact, data, "own.py:Noted", model="net.py:build", output="rows.jsonl", resume=True
        )
        return Path("updates").stat().st_size - before

    assert measured() == 80
    assert measured() == 0
    with np.load("data.npz") as data:
        x, target = data["x"], data["target"].copy()
    target[39] = (target[39] + 1) % 3
    np.savez("changed.npz", x=x, target=target)
    assert measured(data="changed.npz") == 80
    assert measured("bad") == 80
    own = here / "own.py"
    own.write_text(own.read_text() + "# another one\n")
    assert measured() == 80
    net = here / "net.py"
    text = net.read_text()
    net.unlink()
    net.write_text(text.replace("manual_seed(0)", "manual_seed(1)"))
    assert measured() == 80
    assert measured() == 0
    assert len(read_lines("rows.jsonl")) == 5


@pytest.mark.usefixtures("_moody", "here")
def test_resume_runs_lost_artifacts_again(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("evaluate", "good", "moody", *DATA, "--output", "rows.jsonl", "--resume")
    with monkeypatch.context() as patch:
        patch.setenv("MOOD", "crash")
        ran = cli(*words)
    assert (ran.code, ran.err) == (1, "error: 'moody': accuracy: 'moody' ended with SIGSEGV\n")
    ran = cli(*words, "--json")
    assert ran.code == 0
    assert [row["value"] for row in ran.document["rows"]] == [0.9, 0.9]


def repeat_items(count: int, seconds: float = 0.0) -> Iterator[Any]:
    """Yield items, and interrupt after ``count`` of them."""
    with np.load("data.npz") as data:
        x, target = data["x"], data["target"]
    for number in range(1600):
        if number == count:
            raise KeyboardInterrupt
        yield {"x": x[number % 40], "target": target[number % 40]}
        time.sleep(seconds)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_an_interrupted_run_resumes_at_the_next_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("enginebay_lab.evaluation.checkpoints.CHECKPOINT_SECONDS", 0)
    asked = (["good", "bad"], lambda: repeat_items(interrupted), ["accuracy", "cosine"])
    interrupted = 1200
    seen: list[str] = []
    options: Any = {
        "model": "net.py:build",
        "output": "rows.jsonl",
        "resume": True,
        "watch": lambda step: seen.append(step.detail),
    }
    with pytest.raises(KeyboardInterrupt):
        lab.evaluate(*asked, **options)
    assert read_lines("rows.jsonl") == []
    (part,) = Path().glob("*.part")
    interrupted, seen = -1, []
    found = lab.evaluate(*asked, **options)
    assert not part.exists()
    first = next(int(detail.split()[0]) for detail in seen if detail)
    assert first > 500, "it was resumed, not started again"
    whole = lab.evaluate(*asked, model="net.py:build")
    for row, wanted in zip(found.rows, whole.rows, strict=True):
        assert row.count == wanted.count == 1600
        assert row.value == wanted.value
        assert (row.agreement, row.worst) == (wanted.agreement, wanted.worst)
    assert len(read_lines("rows.jsonl")) == 4


@pytest.mark.slow
def test_a_killed_run_leaves_a_checkpoint_to_resume_from(here: Path) -> None:
    (here / "slow.py").write_text(
        "import time, numpy as np\n"
        "read = dict(np.load('data.npz'))\n"
        "def items():\n"
        "    for n in range(1600):\n"
        "        yield {'x': read['x'][n % 40], 'target': read['target'][n % 40]}\n"
        "        time.sleep(0.003)\n"
    )
    words = ("evaluate", "good", "--data", "slow.py:items", "--metric", "accuracy")
    process = subprocess.Popen(
        command(*words, "--output", "rows.jsonl"),
        env=environment(),
        stdout=subprocess.DEVNULL,
    )
    while not list(here.glob("rows.*.part")):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    seen: list[str] = []
    (row,) = lab.evaluate(
        *("good", lambda: repeat_items(-1), "accuracy"),
        output="rows.jsonl",
        resume=True,
        watch=lambda step: seen.append(step.detail),
    ).rows
    assert (row.count, row.value) == (1600, 0.9)
    first = next(int(detail.split()[0]) for detail in seen if detail)
    assert first > 16, "a run from the start has 16 items in its first chunk"
    assert [path.name for path in here.glob("rows.*")] == ["rows.jsonl"]


def test_two_evaluations_may_write_to_one_file(here: Path) -> None:
    Path("rows.jsonl").write_bytes(
        b'{"kind":"evaluation row","schema":1,"artifact":"x"'
    )  # cut short by a kill
    words = ("--data", "data.npz", "--metric", "accuracy", "--output", "rows.jsonl", "--resume")
    processes = [
        subprocess.Popen(
            command("evaluate", name, *words), env=environment(), stdout=subprocess.DEVNULL
        )
        for name in ("good", "bad")
    ]
    assert [process.wait() for process in processes] == [0, 0]
    first, *rest = Path("rows.jsonl").read_text().splitlines()
    assert first == '{"kind":"evaluation row","schema":1,"artifact":"x"'
    assert sorted(json.loads(line)["artifact"] for line in rest if line) == ["bad", "good"]


def test_a_file_with_other_contents_is_not_changed(here: Path, cli: Run) -> None:
    Path("rows.jsonl").write_text("name,value\n")
    ran = cli("evaluate", "good", *DATA, "--output", "rows.jsonl", "--resume")
    assert ran.code == 2
    assert ran.err.startswith(
        "error: 'rows.jsonl' contains no evaluation rows: JSON is malformed: "
    )
    assert Path("rows.jsonl").read_text() == "name,value\n"
    ran = cli("evaluate", "good", *DATA, "--resume")
    assert (ran.code, ran.err) == (
        2,
        (
            "error: resume requires the file of an earlier evaluation\n"
            "hint: name the file: --output ROWS\n"
        ),
    )
    ran = cli("evaluate", "good", *DATA, "--output", "nowhere/rows.jsonl")
    assert (ran.code, ran.err) == (1, "error: 'nowhere/rows.jsonl': No such file or directory\n")


def test_a_full_disk_is_one_error_line_and_earlier_rows_stay(here: Path, cli: Run) -> None:
    words = ("--data", "data.npz", "--metric", "accuracy", "--output", "rows.jsonl", "--resume")
    assert cli("evaluate", "good", *words).code == 0
    kept = Path("rows.jsonl").read_bytes()

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(kept) + 40, resource.RLIM_INFINITY))

    done = subprocess.run(
        command("evaluate", "good", "bad", *words),
        env=environment(),
        preexec_fn=small_files,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    # If the evaluation takes long, its checkpoint is written first.
    warning, _, error = done.stderr.partition("\n")
    assert warning.startswith("warning: the recorded verdict of")
    file, _, rest = error.partition("' cannot be written: ")
    assert file == "error: 'rows.jsonl" or file.endswith(".part")
    assert rest.startswith("File too large\nhint: ")
    assert Path("rows.jsonl").read_bytes().startswith(kept)
    assert cli("evaluate", "good", "bad", *words).code == 0
    assert [row["artifact"] for row in map(json.loads, _complete_lines("rows.jsonl"))] == [
        "good",
        "bad",
    ]


def _complete_lines(path: str) -> list[str]:
    return [line for line in Path(path).read_text().splitlines() if line.endswith("}")]


class Refilled:
    """A data set that fills the same arrays with each item."""

    def __init__(self) -> None:
        self.whole = dict(np.load("data.npz"))

    def __len__(self) -> int:
        return 40

    def __iter__(self) -> Iterator[dict[str, Any]]:
        item = {"x": np.empty((1, 4), np.float32), "target": np.empty(1, np.int64)}
        for number in range(40):
            item["x"][:] = self.whole["x"][number]
            item["target"][:] = self.whole["target"][number]
            yield item


@pytest.mark.usefixtures("here")
def test_a_data_set_may_refill_its_arrays() -> None:
    found = lab.evaluate("good", Refilled(), "accuracy", model="net.py:build")
    assert (found.rows[0].value, found.rows[0].reference) == (0.9, 0.9)


class Clearing:
    """A metric that writes into its arguments."""

    def reset(self) -> None:
        pass

    def update(self, outputs: Any, target: Any) -> None:
        outputs[...] = 0
        target[...] = 9

    def compute(self) -> float:
        return 1.0


@pytest.mark.usefixtures("here")
def test_a_metric_that_writes_into_its_arguments_spoils_nothing() -> None:
    whole = dict(np.load("data.npz"))
    items = [
        {"x": x, "target": target[None]}
        for x, target in zip(whole["x"], whole["target"], strict=True)
    ]
    row, other = lab.evaluate("good", items, [Clearing, "accuracy"], model="net.py:build").rows
    assert (row.value, other.value, other.agreement) == (1.0, 0.9, 1.0)
    assert [int(each["target"][0]) for each in items] == whole["target"].tolist()


class Forgetful:
    """A metric that counts items, and whose ``reset()`` does nothing."""

    def __init__(self) -> None:
        self.metric_state = {"count": 0}

    def reset(self) -> None:
        pass

    def update(self, outputs: Any, target: Any) -> None:
        self.metric_state["count"] += 1

    def compute(self) -> int:
        return self.metric_state["count"]

    def merge_state(self, state: dict[str, int]) -> None:
        self.metric_state["count"] += state["count"]


@pytest.mark.usefixtures("here")
def test_a_metric_whose_reset_does_nothing_counts_each_item_once() -> None:
    items = [{"x": np.zeros((1, 4), np.float32), "target": 0}] * 200
    for metric in (Forgetful, Forgetful()):
        assert lab.evaluate("good", items, metric).rows[0].value == 200
