"""`lab.benchmark`: side by side, and a failure fails one row."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import onnx
import psutil
import pytest

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import ChildCrashedError, InputError, ModelSourceError, UsageError
from enginebay_lab.measurement.statistics import MIN_WINDOWS, compute_ratio
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator

NET = """\
import torch

def build():
    return torch.nn.Linear(4, 3), torch.ones(2, 4)
"""

#: An engine whose third call crashes or hangs, as an environment variable requests.
MOODY = """\
import ctypes, os, time
import enginebay as eb
import enginebay_lab as lab
from enginebay_testing import loopback


class Moody(loopback.LoopbackWrapper):
    calls = 0

    def execute(self, feed):
        self.calls += 1
        mood = os.environ.get("MOOD", "")
        if mood == "slow":
            time.sleep(0.005)
        if mood == "crash" and self.calls > 2:
            ctypes.string_at(0)
        if mood == "raise" and self.calls > 20:
            raise RuntimeError("out of oil")
        if mood == "kill" and self.calls > 20:
            os.kill(os.getpid(), 9)
        if mood == "hang" and self.calls > 2:
            time.sleep(600)
        return super().execute(feed)


@eb.hookimpl
def backend_info():
    return eb.BackendInfo(
        name="moody", irs=("onnx",), params=loopback.LoopbackParams, api_version=1
    )


to_backend = loopback.to_backend


@eb.hookimpl
def build_wrapper(request):
    if os.environ.get("MOOD") == "no load":
        raise eb.EnginebayError("the engine is cold", hint="light it")
    return Moody(request)
"""


#: An engine that times its layers.
LAYERED = """\
import os
import onnx
import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import UsageError
from enginebay.hooks import TimedLayer
from enginebay_testing import loopback


@eb.hookimpl
def backend_info():
    return eb.BackendInfo(
        name="layered", irs=("onnx",), params=loopback.LoopbackParams, api_version=1
    )


to_backend = loopback.to_backend
build_wrapper = loopback.build_wrapper


@eb.hookimpl
def time_layers(request):
    nodes = onnx.load(request.load.directory / request.load.files[0]).graph.node
    names = [node.name for node in nodes]
    assert request.inputs and request.runs >= 5
    return [
        TimedLayer(name="both", operator="Fused", seconds=0.75, nodes=tuple(names)),
        TimedLayer(name="copy", seconds=0.25),
    ]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, loopback: str) -> Iterator[Path]:
    """``net.py``, and its artifacts ``good``, ``open``, whose batch is open, and ``moody``."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "net.py").write_text(NET)
    namespace: dict[str, Any] = {}
    exec(NET, namespace)
    model, example = namespace["build"]()
    with temporary_backend("moody", MOODY):
        for name, backend, params in (
            ("good", loopback, {}),
            ("open", loopback, {"min_shapes": "input:1x4", "max_shapes": "input:8x4"}),
            ("moody", "moody", {}),
        ):
            eb.deploy(
                *(model, example),
                backend=backend,
                params=params,
                work_dir=folder / name,
                export=eb.ExportOptions(exporter="torchscript"),
                verify=eb.VerifyOptions(probes=0),
            )
        yield folder


@pytest.fixture
def here(built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(built)
    return built


def measure(*artifacts: str, duration: float = 0.05, **more: Any) -> lab.Benchmark:
    return lab.benchmark(list(artifacts), duration=duration, **more)


@pytest.mark.usefixtures("here")
def test_figures_of_a_single_artifact() -> None:
    found = lab.benchmark("good", duration=0.3)
    (row,) = found.rows
    assert (row.name, row.backend, row.precision) == ("good", "loopback", "fp32")
    assert (row.batch, row.threads, row.failure, row.ratio) == (2, 1, "", None)
    assert row.artifact == str(Path("good").resolve())
    assert row.call is not None
    assert row.engine is not None
    assert 0 < row.engine.min < row.call.median
    assert row.calls_per_second == 1 / row.call.median
    assert row.items_per_second == 2 / row.call.median
    assert row.load > 0 < row.first
    assert row.peak_memory > row.bare_memory > 2**20
    assert row.agreement.windows == len(row.windows) >= MIN_WINDOWS
    assert row.call.runs == sum(window.calls for window in row.windows)
    assert (row.quantiles[0], row.quantiles[-1]) == (row.call.min, row.call.max)
    assert row.receipt.engine.startswith("onnx.reference")
    assert found.machine.cores > 0
    assert found.baseline == ""
    assert str(found).splitlines()[0].split()[:2] == ["MEDIAN", "95"]
    assert (repr(found), found.to_dict()["kind"]) == ("<Benchmark of good>", "benchmark")


def test_memory_excludes_the_parent_process(here: Path) -> None:
    ballast = np.ones(2**27, np.uint8)  # this process, whose children start with its peak
    (row,) = measure("good").rows
    assert row.peak_memory is not None
    assert row.peak_memory < psutil.Process().memory_info().rss - ballast.nbytes // 2


@pytest.mark.usefixtures("here")
def test_each_batch_and_number_of_threads_has_a_row() -> None:
    found = measure("open", batches=(1, 8), threads=(1, 2))
    assert [(row.batch, row.threads) for row in found.rows] == [(1, 1), (1, 2), (8, 1), (8, 2)]
    assert found.failures == []
    for row in found.rows:
        assert row.call is not None
        assert row.engine is not None
        assert row.calls_per_second == row.threads / row.call.median
        assert row.items_per_second == row.calls_per_second * row.batch
        for name in ("median", "low", "high", "mean", "min", "max"):
            assert getattr(row.engine, name) <= getattr(row.call, name), name


@pytest.mark.usefixtures("here")
def test_pytorch_is_measured_like_an_artifact() -> None:
    found = measure("open", against="pytorch", model="net.py:build", batches=(8,), threads=(2,))
    torch_row, row = found.rows
    assert found.failures == []
    assert found.baseline == torch_row.name == torch_row.backend == "pytorch"
    assert torch_row.receipt.engine.startswith("torch ")
    assert (torch_row.batch, torch_row.threads, torch_row.ratio) == (8, 2, None)
    agreed = torch_row.agreement.agreed and row.agreement.agreed
    assert (row.ratio is not None) == agreed


@pytest.mark.usefixtures("here")
def test_the_ratio_says_how_many_times_as_fast_an_artifact_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOOD", "slow")
    slow, good = measure("moody", "good", duration=0.5).rows
    medians = [sorted(window.median for window in row.windows) for row in (slow, good)]
    for row, listed in zip((slow, good), medians, strict=True):
        assert listed[0] <= row.call.low <= row.call.median <= row.call.high <= listed[-1]
    found = compute_ratio(good.windows, slow.windows)
    # Between the extreme ratios of windows: nearer to the medians' ratio only on a calm machine.
    assert medians[0][0] / medians[1][-1] <= found.value <= medians[0][-1] / medians[1][0]
    assert found.low <= found.value <= found.high
    assert found.value > 3


@pytest.mark.one_in(5)
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("mood", "failure"),
    [
        ("crash", "'moody' ended with SIGSEGV"),
        ("hang", "'moody' ran past its time limit of {limit}."),
        ("no load", "the engine is cold; light it"),
        ("raise", f"onnx.reference {onnx.__version__} failed on input float32(2, 4): out of oil"),
        ("kill", "'moody' ended with SIGKILL"),
    ],
)
def test_a_failed_artifact_fails_only_its_own_row(
    mood: str, failure: str, monkeypatch: pytest.MonkeyPatch, soon: int
) -> None:
    monkeypatch.setenv("MOOD", mood)
    limit = 3 * soon if mood == "hang" else 600
    found = measure("moody", "good", timeout=limit)
    lost, good = found.rows
    assert lost.failure.startswith(failure.format(limit=limit))
    assert (lost.call, lost.ratio, good.ratio) == (None, None, None)
    assert good.failure == ""
    assert good.call.runs >= MIN_WINDOWS
    assert found.failures == [f"'moody': {lost.failure}"]


@pytest.mark.usefixtures("here")
def test_an_error_is_raised_if_nothing_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOD", "crash")
    with pytest.raises(ChildCrashedError, match="'moody' ended with SIGSEGV"):
        measure("moody")
    with pytest.raises(InputError, match="input"):
        lab.benchmark("good", {"input": np.ones((2, 5), np.float32)}, duration=0.01)


@pytest.mark.usefixtures("here")
def test_a_fixed_batch_is_a_row_with_its_reason() -> None:
    fixed, free = measure("good", "open", batches=(4,)).rows
    assert fixed.failure == (
        "the batch size is fixed: the model takes input float32[2, 4]; deploy the model "
        "with a dynamic batch size: --min-shapes input:1x4 --max-shapes input:8x4"
    )
    assert (free.batch, free.failure) == (4, "")


@pytest.mark.usefixtures("here")
def test_the_smallest_number_of_windows_is_made_even_if_it_takes_longer() -> None:
    (row,) = measure("good", duration=1e-9).rows
    assert len(row.windows) == MIN_WINDOWS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"duration": 0}, "'duration' is 0, expected a positive number"),
        ({"duration": float("nan")}, "'duration' is nan, expected a positive number"),
        ({"timeout": 0}, "'timeout' is 0, expected a positive number"),
        ({"batches": (0,)}, "'batches' is 0, expected an integer of 1 or more"),
        ({"threads": (1, 1)}, "'threads' contains a number twice"),
        ({"against": "onnx"}, "invalid argument against='onnx': expected 'pytorch'"),
        ({"against": "pytorch"}, "no PyTorch model to compare with"),
        (
            {"model": "net.py:build"},
            "a model was passed, but no comparison with PyTorch was requested",
        ),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_loaded(
    arguments: dict[str, Any], message: str
) -> None:
    start = time.process_time()
    with pytest.raises(UsageError, match=rf"^{message}(\nhint: [^\n]+)?$"):
        lab.benchmark("nowhere", **arguments)
    assert time.process_time() - start < 1


@pytest.mark.usefixtures("here")
def test_run_time_parameters_stand_in_the_rows() -> None:
    (row,) = measure("good", params={"gain": 2.0}).rows
    assert row.params == {"gain": 2.0}
    assert not row.failure
    measured = measure("good", "open", params={"gain": 2.0})
    assert "'open', batch 2: loaded with gain=2.0" in " ".join(str(measured).split())
    assert measured.to_dict()["rows"][0]["params"] == {"gain": 2.0}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("names", [("good",), ("good", "open")])
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"file_name": "x"}, "file_name is built into '.*': a load can change device, gain"),
        ({"gain": "x"}, "'x' does not fit LoopbackParams.gain: expected float"),
        ({"lanes": 2}, "'lanes', which is not one of its fields|has the parameter lanes"),
    ],
)
def test_a_parameter_that_no_load_takes_is_refused(
    names: tuple[str, ...], params: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        measure(*names, params=params)


@pytest.mark.usefixtures("here")
def test_models_and_artifacts_are_named_correctly() -> None:
    import torch

    with pytest.raises(UsageError, match="'model' is a Linear, expected the name of a model"):
        lab.benchmark("good", against="pytorch", model=torch.nn.Linear(4, 3))  # type: ignore[arg-type]  # what is refused
    with pytest.raises(UsageError, match="artifact 'good' was passed twice"):
        lab.benchmark(["good", "good"])
    with pytest.raises(UsageError, match="no artifact to measure"):
        lab.benchmark([])


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_layers_have_a_share_nodes_and_modules(tmp_path: Path, loopback: str) -> None:
    import torch

    with temporary_backend("layered", LAYERED):
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
        artifact = eb.deploy(
            model,
            torch.ones(2, 4),
            backend="layered",
            work_dir=tmp_path / "a",
            verify=eb.VerifyOptions(probes=0),
        )
        found = lab.benchmark([artifact.artifact, "good"], duration=0.05, layers=True)
    row, other = found.rows
    assert [(one.name, one.operator, one.seconds, one.share) for one in row.layers] == [
        ("both", "Fused", 0.75, 0.75),
        ("copy", "", 0.25, 0.25),
    ]
    assert len(row.layers[0].nodes) == 2
    assert row.layers[0].modules == ("0", "1")
    assert (row.layers[1].nodes, row.layers[1].modules) == ((), ())
    assert other.layers == ()
    assert "the layers could not be timed: backend 'loopback' does not time layers" in other.notes


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("raise UsageError('not on Tuesdays')", "not on Tuesdays"),
        (
            "return [1]",
            (
                "time_layers() of 'layered' returned 1: expected a TimedLayer whose 'seconds' are "
                "finite and not negative"
            ),
        ),
        (
            "os._exit(3)",
            "'enginebay_lab.measurement.layer_timing:time_layers_here' ended with exit code 3",
        ),
    ],
)
def test_a_note_says_why_layers_are_not_timed(tmp_path: Path, body: str, note: str) -> None:
    import torch

    source = f"{LAYERED.partition('    nodes =')[0]}    {body}\n"
    with temporary_backend("layered", source):
        artifact = eb.deploy(
            torch.nn.ReLU(),
            torch.ones(2),
            backend="layered",
            work_dir=tmp_path / "a",
            verify=eb.VerifyOptions(probes=0),
        ).artifact
        (row,) = lab.benchmark(artifact, duration=0.01, layers=True).rows
    assert row.layers == ()
    assert row.notes[-1].startswith(f"the layers could not be timed: {note}")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nothing.py:build", "nothing.py"),
        ("good/model.onnx", "'good/model.onnx' is an ONNX file, expected a PyTorch model"),
    ],
)
def test_a_model_that_pytorch_cannot_run_is_refused_before_anything_is_measured(
    model: str, message: str
) -> None:
    with pytest.raises(ModelSourceError, match=message):
        measure("good", against="pytorch", model=model)


def test_the_output_file_contains_every_window_and_row(here: Path, tmp_path: Path) -> None:
    file = tmp_path / "measured.jsonl"
    found = measure("good", output=file)
    machine, *windows, row = map(json.loads, file.read_text().splitlines())
    whole = json.loads(msgspec.json.encode(found))
    assert machine == {"kind": "benchmark line", "schema": 1, "machine": whole["machine"]}
    assert row == {"kind": "benchmark line", "schema": 1, "row": whole["rows"][0]}
    assert [line["window"] for line in windows] == row["row"]["windows"]
    assert msgspec.convert(msgspec.to_builtins(found), lab.Benchmark) == found
    with pytest.raises(UsageError, match=r"measured.jsonl' already exists\nhint: [^\n]+$"):
        measure("good", output=file)


@pytest.mark.slow
@pytest.mark.process
def test_a_killed_benchmark_leaves_its_windows_in_the_output_file(
    here: Path, tmp_path: Path
) -> None:
    file = tmp_path / "measured.jsonl"
    arguments = f"['good', 'open'], duration=60, output={str(file)!r}"
    code = f"import enginebay_lab as lab; lab.benchmark({arguments})"
    path = os.pathsep.join(sys.path)
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    while not (file.exists() and file.read_text().count('"window"') > 3):
        assert process.poll() is None
        time.sleep(0.02)
    children = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGKILL)
    process.wait()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {line["name"] for line in lines if "window" in line} == {"good", "open"}
    gone, alive = psutil.wait_procs(children, timeout=100)
    assert (len(gone), alive) == (4, [])  # two engines, one of them asleep, and their guards
