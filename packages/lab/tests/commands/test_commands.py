"""The lab's commands as users type them, on the backend that needs no engine."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import onnx
import pytest
import torch
from torch import nn

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import ArtifactError, BackendUnavailableError
from enginebay_lab.reports.reproduction import list_commands
from enginebay_testing import CommandConformance

if TYPE_CHECKING:
    from pathlib import Path

    from packages.core.tests.cli.conftest import Run

DEPLOY = ("--backend", "loopback", "--exporter", "torchscript")
COMMANDS = {
    entry.name: entry
    for entry in entry_points(group="enginebay.commands")
    if entry.dist and entry.dist.name == "enginebay-lab"
}
OURS = sorted(COMMANDS)


def test_core_lists_the_commands(cli: Run) -> None:
    assert len(OURS) == 12
    text = cli("-h").out
    for name in OURS:
        assert re.search(rf"^  {name} +[a-z]", text, re.MULTILINE), name


@pytest.mark.parametrize("command", OURS)
class TestLaws(CommandConformance):
    pass


@pytest.mark.parametrize("name", OURS)
def test_each_command_has_help_and_valid_examples(cli: Run, name: str) -> None:
    code, text, _ = cli(name, "-h")
    assert code == 0
    assert text.startswith(f"usage: enginebay {name}")
    module = COMMANDS[name].load()
    for line in module.EXAMPLES:
        assert len(line) <= 90
        argv = [word.replace("{backend}", "loopback") for word in shlex.split(line)[2:]]
        argv = ["loopback" if "," in word and "onnx" in word else word for word in argv]
        parser = argparse.ArgumentParser(exit_on_error=False)
        parser.add_argument("--json", action="store_true")  # as every command has it
        module.add_arguments(parser, argv)
        parser.parse_args(argv)


@pytest.mark.parametrize("name", ["compare", "quantize"])
def test_a_short_help_fits_one_screen_and_names_real_flags(cli: Run, name: str) -> None:
    shown = cli(name, "-h").out
    listed = {word.strip(",") for word in cli(name, "--help-all").out.split()}
    assert shown.count("\n") <= 40 < len(listed)
    assert max(map(len, shown.splitlines())) <= 100
    flags = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", shown))
    assert flags - {"--precision", "--device"} <= listed, "loopback has none of the two"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("deploy tiny.onnx --all", "enginebay compare MODEL --all"),
        ("deploy tiny.onnx --max-drop 0.1", "enginebay quantize MODEL --max-drop X"),
        ("deploy tiny.onnx --report page.html", "enginebay report FOLDER"),
        ("verify tiny --bisect", "enginebay bisect ARTIFACT"),
    ],
)
def test_a_removed_flag_has_a_hint(cli: Run, words: str, hint: str) -> None:
    ran = cli(*words.split())
    assert (ran.code, ran.err.splitlines()[-1]) == (2, f"hint: {hint}")


def test_audit_exits_with_1_if_a_file_has_drifted(cli: Run, here: Path) -> None:
    assert cli("export", "net.py:build", "--output", "net.onnx", *DEPLOY[2:]).code == 0
    (here / "copy.onnx").write_bytes((here / "net.onnx").read_bytes())
    ran = cli("audit", "net.onnx", "copy.onnx")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "the same model: net.onnx, copy.onnx")
    drifted = onnx.load(here / "net.onnx")
    drifted.graph.node[-1].op_type = "Sigmoid"
    onnx.save(drifted, here / "drifted.onnx")
    ran = cli("audit", "net.onnx", "drifted.onnx", "--input", "x=2x4", "--json")
    assert (ran.code, ran.document["same"], ran.document["engine"]) == (1, False, "loopback")
    first, row = ran.document["rows"]
    assert (first["file"], row["file"], row["weights"]) == ("net.onnx", "drifted.onnx", "equal")
    assert row["outputs"][0]["passed"] is False
    assert cli("audit", "net.onnx", "drifted.onnx", "--atol", "1").code == 0
    ran = cli("audit", "net.onnx")
    assert (ran.code, ran.err) == (2, "error: expected at least two files, found 1\n")


def test_bisect_of_a_mismatched_artifact_exits_with_1(cli: Run) -> None:
    assert cli("deploy", "net.py:build", *DEPLOY, "--gain", "1.5", "--allow-mismatch").code == 0
    ran = cli("bisect", "net-build-loopback")
    assert ran.code == 1, ran.err
    lines = ran.out.splitlines()
    assert re.fullmatch(
        r"loopback differs from PyTorch at 'linear', node '\S+' \(Gemm\): off by \S+ when the "
        r"engine runs the model from its inputs, and by \S+ when it runs only this part; the "
        r"exported graph is right there, but the engine is wrong",
        lines[0],
    )
    assert re.search(r"^module +\w+\n(.*\n)*MODULE +THROUGH +ALONE", ran.out, re.M)


def test_bisect_of_a_verified_artifact_exits_with_0(cli: Run) -> None:
    assert cli("deploy", "net.py:build", *DEPLOY).code == 0
    ran = cli("bisect", "net-build-loopback", "--model", "net.py:build")
    assert ran.code == 0
    assert ran.out.startswith("a rebuilt engine has no wrong output on this sample; ")
    found = cli("bisect", "net-build-loopback", "--json").document
    assert (found["found"], found["step"], found["module"], found["node"]) == (
        False,
        "none",
        "",
        "",
    )


def test_bisect_every_piece(cli: Run) -> None:
    assert cli("deploy", "net.py:build", *DEPLOY, "--gain", "1.5", "--allow-mismatch").code == 0
    ran = cli("bisect", "net-build-loopback", "--pieces")
    assert ran.code == 1, ran.err
    assert re.match(r"0 of \d pieces agree alone; \d wrong\n", ran.out)
    assert re.search(r"^MODULE +OPERATORS +ERROR +RTOL +ATOL", ran.out, re.M)
    assert re.search(r"^linear +Gemm +\S+ +\S+ +\S+ +on (reference|redrawn) values$", ran.out, re.M)
    found = cli("bisect", "net-build-loopback", "--pieces", "--json").document
    assert found["kind"] == "pieces"
    assert {row["verdict"] for row in found["rows"]} == {"mismatched"}
    right = cli("bisect", "net-build-loopback", "--pieces", "--rtol", "1")
    assert (right.code, right.out.partition(" of ")[0]) == (0, str(len(found["rows"])))


def test_bisect_finds_a_wrong_rewriter_of_the_user(cli: Run, here: Path) -> None:
    (here / "mine.py").write_text(
        "import enginebay as eb\n"
        "mine = eb.RewriterSet()\n"
        "@mine.function('torch.Tensor.relu')\n"
        "def wrong(ctx, x): return ctx.origin_func(x) + 1\n"
    )
    wrong = ("--rewriters", "mine.py:mine")
    assert cli("deploy", "net.py:build", *DEPLOY, "--allow-mismatch", *wrong).code == 0
    ran = cli("bisect", "net-build-loopback", *wrong)
    assert (ran.code, "torch.Tensor.relu" in ran.out) == (1, True), ran.out
    ran = cli("bisect", "net-build-loopback", "--pieces", *wrong)
    assert (ran.code, "1 wrong" in ran.out) == (1, True), ran.out


@pytest.mark.slow
def test_bisections_and_pieces_print_as_the_command_does(cli: Run) -> None:
    assert cli("deploy", "net.py:build", *DEPLOY, "--gain", "1.5", "--allow-mismatch").code == 0
    found, pieces = lab.bisect("net-build-loopback"), lab.pieces("net-build-loopback")
    assert f"{found}\n" == cli("bisect", "net-build-loopback").out
    assert f"{pieces}\n" == cli("bisect", "net-build-loopback", "--pieces").out
    assert repr(found) == f"<Bisection: {found.reason}>"
    assert repr(pieces).startswith("<Pieces on loopback: 0 of ")


def test_a_comparison_prints_as_the_command_does(cli: Run, here: Path) -> None:
    words = ("--backend", "loopback", "--exporter", "torchscript", "--duration", "0.05")
    ran = cli("compare", "net.py:build", *words, "--work-dir", "out", "--report", "out.json")
    saved = (here / "out" / "comparison.json").read_bytes()
    found = msgspec.json.decode(saved, type=lab.Comparison)
    assert (f"{found}\n", ran.code) == (ran.out, 0)
    assert found.to_dict() == {"schema": 1, **json.loads(saved)}
    assert repr(found) == "<Comparison of net.py:build, rows: 1>"
    assert "<th " in found._repr_html_()
    # The comparison and its report are made again by one command, which replaces the artifacts.
    ((_, again),) = list_commands(lab.report("out.json"))
    assert again == found.command
    assert again.endswith(" --report out.json --overwrite")


@pytest.mark.parametrize("flag", ["against", "report"])
def test_pieces_refuse_other_flags(cli: Run, flag: str) -> None:
    ran = cli("bisect", "net-build-loopback", "--pieces", f"--{flag}", "there.html")
    assert (ran.code, ran.err.splitlines()[0]) == (
        2,
        f"error: --pieces and --{flag} cannot be combined",
    )


@pytest.mark.slow
def test_a_comparison_measures_the_engines_that_run_here(
    ahead: str, loopback: str, tmp_path: Path
) -> None:
    found = lab.compare(
        nn.ReLU(),
        torch.randn(2, 3),
        backends=[ahead, loopback],
        work_dir=tmp_path / "out",
        duration=0.05,
    )
    built, ran = found.rows
    assert (built.verdict, ran.verdict) == ("unverified", "verified")
    assert built.notes == ("not measured: the engine is built for a board of kind 1 or 2",)
    assert (built.speed, ran.speed is not None) == (None, True)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("use", ["benchmark", "evaluate", "bisect"])
def test_commands_that_run_a_foreign_engine_are_refused_in_one_line(
    ahead: str, tmp_path: Path, use: str
) -> None:
    made = eb.deploy(nn.ReLU(), torch.ones(2), backend=ahead, work_dir=tmp_path / "a")
    more = ([{"input": np.ones(2, np.float32)}], "accuracy") if use == "evaluate" else ()
    with pytest.raises(eb.EnginebayError, match=r"and this machine has no board\n") as caught:
        getattr(lab, use)(made.artifact.path, *more)
    assert isinstance(caught.value, BackendUnavailableError) == (use != "bisect")


def test_an_artifact_for_another_device_is_not_measured(loopback: str, tmp_path: Path) -> None:
    made = eb.deploy(nn.ReLU(), torch.ones(2), backend=loopback, work_dir=tmp_path / "a")
    file = made.artifact.path / "manifest.json"
    text = file.read_text().rstrip()
    file.write_text(text[:-1] + ', "pinned": {"gpu": "H100"}}')
    with pytest.raises(ArtifactError, match=r'^the artifact runs only with gpu "H100", found none'):
        lab.benchmark(made.artifact.path)


DEPLOYED = ("deploy", "net.py:build", *DEPLOY)


@pytest.fixture
def deployed(cli: Run) -> None:
    """``net.py:build`` at ``net-build-loopback``."""
    assert cli(*DEPLOYED).code == 0


def test_benchmark_prints_calls_and_engine_of_one_artifact(deployed: None, cli: Run) -> None:
    ran = cli("benchmark", "net-build-loopback", "--duration", "0.2")
    assert (ran.code, ran.err) == (0, "")
    header, call, engine, *fields = ran.out.splitlines()
    assert header.split() == ["MEDIAN", "95", "%", "INTERVAL", "P90", "P99", "MIN", "MAX", "RUNS"]
    time = r"[\d,.]+ (ns|µs|ms|s)"
    for line, name in ((call, "call"), (engine, "engine")):
        assert re.match(rf"{name} +{time} +{time} – {time}( +({time}|-)){{4}} +[\d,]+$", line)
    assert re.match(r"rate +[\d,. –]+ calls/s, [\d,. –]+ items/s, one after the other", fields[0])
    assert re.match(rf"load +{time}, then {time} for the first call", fields[1])
    assert re.match(r"memory +[\d.]+ MiB at most, [\d.]+ MiB more than before", fields[2])
    assert re.match(r"windows +(not )?agreed within [\d.]+ % after [\d.]+ s", fields[3])
    assert fields[4].startswith("engine   onnx.reference")


def test_benchmark_compares_with_the_model_that_was_deployed(deployed: None, cli: Run) -> None:
    ran = cli("benchmark", "net-build-loopback", "--duration", "0.01", "--against", "pytorch")
    assert (ran.code, ran.err) == (0, "")
    header, torch, row, *notes = ran.out.splitlines()
    columns = "ARTIFACT CALL ENGINE P90 P99 ITEMS/S MEMORY SPEED AGREED"
    assert header.split() == columns.split()
    assert torch.startswith("pytorch ")
    assert re.match(
        r"net-build-loopback .* ([\d.,]+× \([\d.,]+–[\d.,]+\) +within|- +(within|no:)) ", row
    )
    assert "SPEED is relative to 'pytorch', with the 95 % confidence interval" in notes[0]


def test_benchmark_reports_a_row_that_failed(deployed: None, cli: Run) -> None:
    ran = cli("benchmark", "net-build-loopback", "--duration", "0.01", "--batch", "2,3")
    assert ran.code == 1
    assert ran.err.startswith(
        "error: 'net-build-loopback': the batch size is fixed: the model takes x "
    )
    header, _, lost, *_ = ran.out.splitlines()
    assert header.split()[:2] == ["ARTIFACT", "BATCH"]
    assert lost.split() == ["net-build-loopback", "3", *"-------", "failed"]


def test_benchmark_needs_a_model_to_compare_with(here: Path, deployed: None, cli: Run) -> None:
    (here / "net.py").unlink()
    ran = cli("benchmark", "net-build-loopback", "--against", "pytorch")
    error, hint = ran.err.splitlines()
    assert (ran.code, hint) == (2, "hint: name the model: --model MODEL")
    assert error == (
        "error: no PyTorch model to compare with: no artifact records a model that still exists"
    )


def test_benchmark_is_a_document_too(deployed: None, cli: Run) -> None:
    given = ("--input", "x=2x4", "--duration", "0.01")
    found = cli("benchmark", "net-build-loopback", *given, "--json").document
    (row,) = found["rows"]
    assert row["call"]["low"] <= row["call"]["median"] <= row["call"]["high"]
    assert row["engine"]["runs"] >= 6
    assert row["receipt"]["device"] == "cpu"


def test_benchmark_refuses_inputs_that_do_not_fit(deployed: None, cli: Run) -> None:
    ran = cli("benchmark", "net-build-loopback", "--input", "y=2x4")
    assert ran.code == 2
    assert ran.err.startswith("error: unknown input 'y': the model takes ")
    ran = cli("benchmark", "net-build-loopback", "--duration", "0")
    assert (ran.code, ran.err) == (2, "error: 'duration' is 0, expected a positive number\n")
    ran = cli("benchmark", "net-build-loopback", "--batch", "1,x")
    assert (
        ran.err
        == "error: '1,x' is not a list of numbers\nhint: separate the numbers by commas: 1,8\n"
    )
    ran = cli("benchmark", "net-build-loopback", "--model", "net.py:build")
    assert ran.err.splitlines()[0] == (
        "error: a model was passed, but no comparison with PyTorch was requested"
    )
    assert cli("benchmark", "nowhere").code == 1


def test_a_sweep_builds_engines_for_other_machines(
    ahead: str, cli: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", ahead)
    (here / "sweep.toml").write_text(
        'models = ["net.py:build"]\nbackends = ["ahead"]\nduration = 0.1'
    )
    done = cli("sweep", "sweep.toml", "--output", "swept", "--json")
    assert done.code == 0
    (row,) = json.loads(done.out)["rows"]
    assert row["verdict"] == "unverified"
    assert row["verification"]["simulation"]["samples"] == 6
    assert row["notes"][-1] == (
        "the artifact could not be measured: it is built for a board of kind 1 or 2, and this "
        "machine has no board"
    )
