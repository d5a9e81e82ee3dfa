"""``enginebay sweep``: its output and its exit codes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from enginebay.environment import install_command
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.sweeps.sweep_rows import Sweep, SweepRow
from enginebay_testing.command_runs import Ran, call_command, command, environment

GROUPED = """\
machine  one (Hand-made, 2 cores)
MODEL      BACKEND              VERDICT     MAX ERROR     SIZE  DEPLOY  DROP
tiny.onnx  ncnn fp32 threads=2  verified            -  5.0 MiB  2.00 s  accuracy 0.08
tiny.onnx  ncnn fp16            mismatched          -        -       -  -

machine  two (Hand-made, 2 cores)
MODEL      BACKEND    VERDICT     MAX ERROR  SIZE  DEPLOY
tiny.onnx  ncnn fp32  unverified          -     -       -

machine  unknown
MODEL      BACKEND    VERDICT  MAX ERROR  SIZE  DEPLOY
tiny.onnx  ncnn fp32  lost             -     -       -
tiny.onnx  ncnn fp16  lost             -     -       -

tiny.onnx on ncnn fp32 threads=2   started 2 times, because workers died
tiny.onnx on ncnn fp32             nothing to compare with
tiny.onnx on ncnn fp16             it is wrong
                                   hint: look
tiny.onnx on ncnn fp32 and 1 more  the worker died
note                               the machine was busy
folder  out

Next:
  enginebay sweep sweep.toml --output out --resume
"""

NET = """\
import torch


def build():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3), torch.randn(2, 4)


def hang():
    import time

    time.sleep(600)
"""

MACHINE = Machine(processor="Hand-made", cores=2, system="s", python="3", enginebay="1")
DROPPED = EvaluationRow(
    artifact="a",
    backend="ncnn",
    metric="accuracy",
    value=0.9,
    reference=0.98,
    drop=0.08,
    count=50,
)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)
    Path("tiny.onnx").write_bytes(b"never read")
    Path("sweep.toml").write_text('models = ["tiny.onnx"]\nbackends = ["ncnn"]\n')
    Path("net.py").write_text(NET)
    return partial(call_command, capfd, "sweep")


def row(host: str, verdict: str = "verified", **fields: Any) -> SweepRow:
    known: dict[str, Any] = {"model": "tiny.onnx", "backend": "ncnn", "precision": "fp32", **fields}
    machine = MACHINE if host else None
    return SweepRow(key=f"{host}{known}", host=host, verdict=verdict, machine=machine, **known)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes what a sweep on several machines would find: there is one here."""

    def to(*rows: SweepRow, **fields: Any) -> None:
        value = Sweep(rows=rows, **fields)
        monkeypatch.setattr("enginebay_lab.sweeps.run_sweep.sweep", lambda *_, **__: value)

    return to


def test_rows_are_grouped_by_host(cli: Any, found: Any) -> None:
    found(
        row(
            "one", size=5 << 20, seconds=2.0, metrics=(DROPPED,), params={"threads": 2}, attempts=2
        ),
        row("two", "unverified", reason="nothing to compare with", artifact="two"),
        row("one", "mismatched", precision="fp16", reason="it is wrong", hint="look"),
        row("", "lost", fault="worker died", reason="the worker died"),
        row("", "lost", precision="fp16", fault="worker died", reason="the worker died"),
        notes=("the machine was busy",),
    )
    ran: Ran = cli("sweep.toml", "--output", "out")
    assert ran.out == GROUPED
    assert ran.err.endswith("error: 3 of 5 cells failed: 1 mismatched, 2 lost\n")
    assert ran.code == 1


def test_without_dask_a_scheduler_is_a_missing_package(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    ran: Ran = cli("sweep.toml", "--scheduler", "tcp://127.0.0.1:1")
    assert ran.err.startswith(
        "error: a Dask scheduler requires 'distributed', which cannot be imported"
    )
    assert ran.err.endswith(f"hint: {install_command('enginebay-lab[dask]')}\n")
    assert ran.code == 3


def test_drops_and_regressions_fail(cli: Any, found: Any) -> None:
    found(row("one", metrics=(DROPPED,), max_drop=0.01), regressions=("it is slower",))
    ran: Ran = cli("sweep.toml", "--json")
    drop = (
        "'tiny.onnx on ncnn fp32': accuracy is 0.9, and 0.98 in PyTorch: "
        "a drop of 0.08 on 50 items, above 0.01"
    )
    assert ran.err == f"error: {drop}\nerror: it is slower\n"
    assert ran.document["failures"] == [drop, "it is slower"]
    assert ran.document["rows"][0]["machine"]["processor"] == "Hand-made"
    assert ran.code == 1


def test_verdicts_that_pass_exit_with_0(cli: Any, found: Any) -> None:
    allowed = row("one", "unverified", artifact="tiny")
    found(row("one", metrics=(DROPPED,), max_drop=0.1), allowed)
    ran: Ran = cli("sweep.toml")
    assert (ran.code, ran.err) == (0, "")
    assert "Next:" not in ran.out


def test_unverified_fails_where_the_cell_does_not_allow_it(cli: Any, found: Any) -> None:
    found(row("one", "unverified", reason="no output changes"))
    ran: Ran = cli("sweep.toml")
    assert (ran.code, ran.err) == (
        1,
        "error: 1 of 1 cells failed: 1 unverified\n",
    )


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ["sweep.toml", "--resume"],
            "--resume requires the folder of an earlier sweep",
            "add --output FOLDER",
        ),
        (["sweep.toml", "--workers", "0"], "--workers is 0, expected 1 or more", None),
        (
            ["sweep.toml", "--workers", "1", "--scheduler", "tcp://127.0.0.1:1"],
            "--workers and --scheduler cannot be combined: a scheduler has its own workers",
            "remove one of them",
        ),
        (["none.toml"], "the config 'none.toml' does not exist", None),
    ],
)
def test_wrong_usage(cli: Any, words: list[str], message: str, hint: str | None) -> None:
    ran: Ran = cli(*words)
    assert ran.err == f"error: {message}\n" + (f"hint: {hint}\n" if hint else "")
    assert ran.code == 2


def test_a_sweep_from_its_file_to_its_gate(cli: Any, loopback: str) -> None:
    Path("sweep.toml").write_text(
        f'models = ["net.py:build"]\nbackends = ["{loopback}"]\nparams = {{gain = [1.0, 2.0]}}'
    )
    ran: Ran = cli("sweep.toml", "--output", "swept", "--workers", "1")
    assert ran.code == 1
    assert ran.err.endswith("error: 1 of 2 cells failed: 1 mismatched\n")
    cells = [line.split()[:4] for line in ran.out.splitlines()[2:4]]
    assert cells == [
        ["net.py:build", "loopback", "gain=1.0", "verified"],
        ["net.py:build", "loopback", "gain=2.0", "mismatched"],
    ]
    assert "Next:" not in ran.out

    rows = Path("swept/rows.jsonl")
    ran = cli("sweep.toml", "--output", "swept", "--resume", "--baseline", rows, "--json")
    document = ran.document
    assert [row["verdict"] for row in document["rows"]] == ["verified", "mismatched"]
    assert document["regressions"] == []
    assert (document["failures"], ran.code) == ([], 0)  # it was mismatched there already

    Path("old.jsonl").write_text(rows.read_text().replace('"mismatched"', '"verified"'))
    ran = cli("sweep.toml", "--output", "swept", "--resume", "--baseline", "old.jsonl")
    assert "net.py:build on loopback gain=2.0: mismatched (verified in the baseline" in ran.err
    assert ran.code == 1


@pytest.mark.slow
def test_a_model_that_was_edited_is_run_again(cli: Any, loopback: str) -> None:
    Path("sweep.toml").write_text(f'models = ["net.py:build"]\nbackends = ["{loopback}"]')
    words = ("sweep.toml", "--output", "swept", "--workers", "1")
    assert cli(*words).code == 0
    rows = Path("swept/rows.jsonl")
    first = rows.read_bytes()
    assert cli(*words, "--resume").code == 0
    assert rows.read_bytes() == first
    Path("net.py").write_text(Path("net.py").read_text() + "\n# another file\n")
    assert cli(*words, "--resume").code == 0
    assert rows.read_bytes() != first
    assert rows.read_bytes().count(b"\n") == 1
    Path("net.py").unlink()
    assert cli(*words, "--resume").code == 2


def test_an_interruption_names_the_rows_and_the_command_to_resume(cli: Any, loopback: str) -> None:
    Path("sweep.toml").write_text(
        f'models = ["net.py:build", "net.py:hang"]\nbackends = ["{loopback}"]'
    )
    words = command("sweep", "sweep.toml", "--output", "swept", "--workers", "1")
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment())
    rows = Path("swept/rows.jsonl")
    while not (rows.exists() and rows.stat().st_size):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert err == (
        "rows so far: swept/rows.jsonl; continue with: "
        "enginebay sweep sweep.toml --output swept --workers 1 --resume\n"
        "error: interrupted\n"
    )
    assert process.returncode == 130
    assert len(rows.read_text().splitlines()) == 1
