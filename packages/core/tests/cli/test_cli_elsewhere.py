"""``deploy`` on a machine that cannot run the engine, and ``verify`` on one that can."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

DEPLOY = ("deploy", "net.py:build", "--backend", "ahead", "--work-dir", "out")


@pytest.fixture
def ahead_cli(cli: Run, ahead: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", ahead)
    return cli


def test_an_artifact_is_built_here_and_verified_on_its_device(
    ahead_cli: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ahead_cli(*DEPLOY)
    assert made.code == 0
    lines = made.out.splitlines()
    assert (
        "verdict   unverified: built for a board of kind 1 or 2, and this machine has no board; "
        "on such a machine: enginebay verify ARTIFACT"
    ) in lines
    heading = next(line for line in lines if line.startswith("The graph that the engine is built"))
    assert heading.endswith("on 6 samples; these are not the engine's own figures:")
    assert lines[-3:] == [
        "Next:",
        "  on a board of kind 1 or 2: enginebay verify out",
        "  enginebay inspect out",
    ]
    refused = ahead_cli("verify", "out")
    assert refused.code == 3
    assert refused.err == (
        f"error: '{here}/out' is built for a board of kind 1 or 2, and this machine has no board\n"
        "hint: copy the artifact to such a machine\n"
    )
    monkeypatch.setenv("AHEAD_DEVICE", "Board 1")
    done = ahead_cli("verify", "out")
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith("recorded: Board 1, verified, 2")
    shown = ahead_cli("inspect", "out").out
    assert "\nbuilt for  a board of kind 1 or 2\n" in shown
    assert "\nrun        Board 1, verified, 2" in shown
    monkeypatch.setenv("AHEAD_GAIN", "2")
    document = ahead_cli("verify", "out", "--json")
    assert document.code == 1
    recorded = json.loads(document.out)["recorded"]
    assert recorded["verification"]["verdict"] == "mismatched"
    assert json.loads(ahead_cli("verify", "out", "--json", "--rtol", "9").out)["recorded"] is None


def test_a_wrong_graph_is_refused_without_a_device(ahead_cli: Run, here: Path) -> None:
    done = ahead_cli(*DEPLOY, "--gain", "2")
    assert done.code == 1
    assert done.err.splitlines()[-2].startswith(
        "error: mismatched: the graph that the engine is built from is wrong when onnx.reference "
    )
    assert done.err.splitlines()[-1] == (
        "hint: check the model, the rewriters or the params; --allow-mismatch publishes the "
        "artifact with this verdict"
    )
    assert not (here / "out").exists()


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (("--strict",), "'strict' checks the fallbacks of the engine, but the engine cannot run "),
        (("--gain", "x"), "argument --gain: "),
    ],
)
def test_flags_that_need_the_device_are_one_error_line(
    ahead_cli: Run, here: Path, flag: tuple[str, ...], message: str
) -> None:
    done = ahead_cli(*DEPLOY, *flag)
    assert done.code == 2
    assert [line for line in done.err.splitlines() if message in line]
    assert "Traceback" not in done.err
    assert not (here / "out").exists()


def test_run_and_verify_report_the_missing_device(ahead_cli: Run, here: Path) -> None:
    ahead_cli(*DEPLOY)
    for code, *command in (
        (3, "run", "out"),
        (3, "verify", "out", "--model", "net.py:build"),
    ):
        done = ahead_cli(*command)
        assert (command, done.code, done.err.count("\n")) == (command, code, 2)
        assert "and this machine has no board\n" in done.err
