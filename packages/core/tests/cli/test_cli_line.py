"""The output of each successful command, on the loopback backend."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from enginebay.cli import main
from enginebay_testing.command_runs import environment

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay_testing.command_runs import Ran

    from .conftest import Run

DEPLOY = ("--backend", "loopback", "--exporter", "torchscript")


@pytest.fixture
def deployed(cli: Run) -> Ran:
    """Deploy ``net.py:build`` to ``net-build-loopback``, and return the command's output."""
    ran = cli("deploy", "net.py:build", *DEPLOY)
    assert ran.code == 0, ran.err
    return ran


def next_commands(text: str) -> list[str]:
    return [line.strip() for line in text.partition("\nNext:\n")[2].splitlines()]


def test_deploy_prints_a_closing_table(deployed: Ran) -> None:
    assert deployed.err == ""
    steps, fields, outputs, _ = deployed.out.split("\n\n")
    lines = steps.splitlines()
    assert lines[0] == "STEP       SECONDS"
    names = ["reference", "export", "convert", "verify", "publish", "total"]
    assert [line.split()[0] for line in lines[1:]] == names
    seconds = [float(line.split()[1]) for line in lines[1:]]
    assert seconds[-1] == pytest.approx(sum(seconds[:-1]), abs=0.03)
    assert len({line.index(line.split()[1]) + len(line.split()[1]) for line in lines[1:]}) == 1
    assert re.fullmatch(
        r"verdict   verified against the PyTorch model, unpatched on 6 samples\n"
        r"range     x in -[\d.]+\.\.[\d.]+\n"
        r"sizes     all fixed; for a dynamic batch: --dynamic batch\n"
        r"engine    onnx\.reference [\d.]+ on cpu, fp32\n"
        r"artifact  net-build-loopback \(2 files, [\d.]+ KiB\)",
        fields,
    )
    header, row = outputs.splitlines()
    assert header.split() == [
        *("OUTPUT", "DTYPE", "SHAPE", "MAX", "ERROR", "RTOL", "ATOL"),
        "RESULT",
    ]
    assert row.split()[:3] == ["output", "float32", "2x3"]
    assert row.endswith("  ok")
    assert row.index("ok") == header.index("RESULT")


def test_fallbacks_are_printed_below_the_verdict(
    cli: Run, fallen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBAY_BACKENDS", fallen)
    deployed = cli("deploy", "net.py:build", "--backend", fallen, "--exporter", "torchscript")
    for ran in (deployed, cli("verify", "net-build-fallen")):
        assert ran.code == 0, ran.err
        lines = ran.out.splitlines()
        verdict = next(place for place, line in enumerate(lines) if "verified against" in line)
        assert lines[verdict + 1].split(maxsplit=1) == ["warning", "no turbo here"]


def test_equal_function_names_get_different_folders(cli: Run, here: Path, deployed: Ran) -> None:
    shutil.copy(here / "net.py", here / "other.py")
    assert cli("deploy", "other.py:build", *DEPLOY).code == 0
    assert (here / "net-build-loopback").is_dir()
    assert (here / "other-build-loopback").is_dir()


def test_the_next_commands_can_be_copied_and_pasted(cli: Run, deployed: Ran) -> None:
    commands = next_commands(deployed.out)
    assert commands == [
        "enginebay run net-build-loopback",
        "enginebay verify net-build-loopback",
        "enginebay inspect net-build-loopback",
    ]
    for command in commands:
        assert cli(*shlex.split(command)[1:]).code == 0


def test_folders_with_blanks_and_dashes_are_quoted(cli: Run, here: Path) -> None:
    for folder in ("my model's", "-folder"):
        ran = cli("deploy", "net.py:build", *DEPLOY, f"--work-dir={folder}")
        assert ran.code == 0
        commands = next_commands(ran.out)
        assert len(commands) == 3
        for command in commands:
            assert cli(*shlex.split(command)[1:]).code == 0, command


def test_the_manifests_command_makes_the_same_artifact_from_anywhere(
    cli: Run, here: Path, deployed: Ran, tmp_path_factory: pytest.TempPathFactory
) -> None:
    manifest = cli("inspect", "net-build-loopback", "--json").document["manifest"]
    assert manifest["command"] == (
        f"cd {shlex.quote(str(here))} && "
        "enginebay deploy net.py:build --backend loopback --exporter torchscript"
    )
    other = tmp_path_factory.mktemp("elsewhere")
    tool = f"{shlex.quote(sys.executable)} -m enginebay"
    again = manifest["command"].replace("&& enginebay", f"&& {tool}")
    subprocess.run(
        ["/bin/sh", "-c", f"{again} --work-dir {shlex.quote(str(other / 'again'))}"],
        cwd=other,
        env=environment(),
        check=True,
        capture_output=True,
    )
    remade = cli("inspect", other / "again", "--json").document["manifest"]
    model = {entry["path"]: entry["sha256"] for entry in manifest["files"]}["model.onnx"]
    assert {entry["path"]: entry["sha256"] for entry in remade["files"]}["model.onnx"] == model
    assert (remade["params"], remade["inputs"]) == (manifest["params"], manifest["inputs"])


def test_the_default_backend_is_written_into_the_command(cli: Run, here: Path) -> None:
    assert cli("deploy", "tiny.onnx").code == 0
    command = cli("inspect", "tiny-loopback", "--json").document["manifest"]["command"]
    assert command == (
        f"cd {shlex.quote(str(here))} && enginebay deploy tiny.onnx --backend loopback"
    )


def test_deploy_as_json(cli: Run) -> None:
    document = cli("deploy", "net.py:build", *DEPLOY, "--json").document
    assert set(document) == {
        *("schema", "kind", "verdict", "artifact", "notes", "steps", "rewriting", "manifest"),
    }
    assert document["verdict"] == "verified"
    assert [step["name"] for step in document["steps"]] == [
        *("reference", "export", "convert", "verify", "publish"),
    ]
    assert not any(step["failed"] for step in document["steps"])
    report = {"fired", "never_fired", "not_found", "not_served", "lost"}
    assert set(document["rewriting"]) == report
    assert document["manifest"]["verification"]["verdict"] == "verified"


def test_a_models_prints_do_not_break_the_json(cli: Run) -> None:
    ran = cli("deploy", "net.py:chatty", *DEPLOY, "--json")
    assert ran.document["verdict"] == "verified"
    assert "the model talks" in ran.err
    assert "the model talks" not in cli("export", "net.py:chatty", "--exporter", "torchscript").out


def test_a_mismatch_is_exit_code_1_and_publishes_nothing(cli: Run, here: Path) -> None:
    ran = cli("deploy", "tiny.onnx", "--backend", "loopback", "--gain", "1.5")
    assert (ran.code, ran.out) == (1, "")
    assert re.fullmatch(
        r"error: mismatched against .+ on [26] samples\n"
        r"place    \"y\".* at \[.+\]: expected \S+, found \S+; \d+ of 48 elements differ\n"
        r"allowed  rtol \S+, atol \S+; rtol \S+ would pass\n"
        r"(warning  .+\n)*"
        r"hint: check the model, the rewriters or the params; publish the artifact with "
        r"this verdict: enginebay deploy tiny\.onnx --backend loopback --gain 1\.5 "
        r"--allow-mismatch, and then find the layer: enginebay bisect tiny-loopback\n",
        ran.err,
    )
    assert sorted(path.name for path in here.iterdir()) == ["net.py", "tiny.onnx"]
    document = cli("deploy", "tiny.onnx", "--gain", "1.5", "--json").document
    assert document["error"]["type"] == "NotVerifiedError"
    # bisect needs an artifact, and nothing was published.
    following = document["error"]["next"]
    assert following[:3] == ["enginebay", "deploy", "tiny.onnx"]
    assert following[-1] == "--allow-mismatch"
    assert document["error"]["message"].splitlines()[1].startswith('place    "y"')
    assert document["verification"]["verdict"] == "mismatched"
    assert 0.1 < document["verification"]["outputs"][0]["rtol_that_passes"] <= 0.5


def test_a_mismatch_can_be_published_with_a_warning(cli: Run) -> None:
    ran = cli("deploy", "tiny.onnx", "--gain", "1.5", "--allow-mismatch")
    assert ran.code == 0
    assert "\nverdict   mismatched against " in ran.out
    assert re.search(r"^y +float32 +1x3x4x4 .* \d+ of 48 differ$", ran.out, re.M)
    assert re.search(r'^worst in "y".* at \[', ran.out, re.M)
    again = cli("verify", "tiny-loopback")
    assert again.code == 1
    assert again.out.startswith("mismatched against the recorded outputs of ")
    inspected = cli("inspect", "tiny-loopback")
    assert inspected.code == 0
    assert "\nverdict   recorded: mismatched against " in inspected.out


def test_export_then_convert_then_run(cli: Run, here: Path) -> None:
    ran = cli("export", "net.py:build", "--exporter", "torchscript")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert re.fullmatch(r"ir      onnx by torch\.onnx torchscript, opset \d+", lines[0])
    assert re.fullmatch(r"file    build\.onnx \([\d.]+ (K?i?B)\)", lines[1])
    assert "input   x float32[2, 4]" in lines
    assert "output  output float32[2, 3]" in lines
    commands = next_commands(ran.out)
    assert commands == ["enginebay inspect build.onnx", "enginebay convert loopback build.onnx"]
    for command in commands:
        ran = cli(*shlex.split(command)[1:])
        assert ran.code == 0
    assert "verdict   unverified: converted without a reference to compare with\n" in ran.out
    commands = next_commands(ran.out)
    assert commands == ["enginebay run build-loopback", "enginebay inspect build-loopback"]
    for command in commands:
        assert cli(*shlex.split(command)[1:]).code == 0


def test_the_next_command_after_convert_fills_open_dimensions(cli: Run, here: Path) -> None:
    sizes = ("--min-shapes", "x:1x4", "--max-shapes", "x:8x4")
    assert cli("export", "net.py:build", "--exporter", "torchscript", *sizes).code == 0
    ran = cli("convert", "loopback", "build.onnx")
    (first, _) = next_commands(ran.out)
    assert first == "enginebay run build-loopback --input x=1x4"
    assert "output  float32  1x3" in cli(*shlex.split(first)[1:]).out
    ran = cli("run", "build-loopback")
    assert ran.code == 2
    assert ran.err.startswith("error: cannot generate an input for x float32[")


def test_export_requires_overwrite_for_an_existing_file(cli: Run, here: Path) -> None:
    (here / "build.onnx").write_text("precious")
    ran = cli("export", "net.py:build", "--exporter", "torchscript")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == ("error: 'build.onnx' exists\nhint: pass --overwrite, or another file name\n")
    assert (here / "build.onnx").read_text() == "precious"
    assert cli("export", "net.py:build", "--exporter", "torchscript", "--overwrite").code == 0
    assert (here / "build.onnx").read_bytes() != b"precious"


def test_run_uses_recorded_inputs_and_writes_outputs(cli: Run, here: Path, deployed: Ran) -> None:
    ran = cli("run", "net-build-loopback", "--output", "found.npz", "--json")
    (output,) = ran.document["outputs"]
    assert (output["name"], output["dtype"], output["shape"]) == ("output", "float32", [2, 3])
    found = np.load(here / "found.npz")["output"]
    assert output["min"] == pytest.approx(found.min())
    assert output["max"] == pytest.approx(found.max())
    assert output["mean"] == pytest.approx(found.mean())
    assert ran.document["receipt"]["device"] == "cpu"
    recorded = np.load(here / "net-build-loopback" / "samples.npz")["0/outputs/output:float32"]
    np.testing.assert_allclose(found, recorded, rtol=1e-5)
    np.save(here / "x.npy", np.zeros((2, 4), np.float32))
    assert cli("run", "net-build-loopback", "--input", "x=x.npy", "--json").document["outputs"] != [
        output
    ]


def test_run_describes_every_kind_of_number(cli: Run, here: Path) -> None:
    from onnx import TensorProto, helper, save

    names = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL}
    infos = [helper.make_tensor_value_info(f"{n}in", t, [2]) for n, t in names.items()]
    outs = [helper.make_tensor_value_info(n, t, [2]) for n, t in names.items()]
    nodes = [helper.make_node("Identity", [f"{n}in"], [n]) for n in names]
    graph = helper.make_graph(nodes, "g", infos, outs)
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        here / "kinds.onnx",
    )
    assert cli("convert", "loopback", "kinds.onnx").code == 0
    given = {
        "fin": np.float32([1, np.nan]),
        "iin": np.int64([2**62, -1]),
        "bin": np.array([True, False]),
    }
    np.savez(here / "given.npz", **given)
    words = ("run", "kinds-loopback", "--input", "given.npz")
    f, i, b = cli(*words, "--json").document["outputs"]
    assert (f["min"], f["max"], f["mean"]) == ("nan", "nan", "nan")
    assert (i["min"], i["max"]) == (-1, 2**62)
    assert (b["min"], b["max"], b["mean"]) == (0.0, 1.0, 0.5)
    rows = [line.split() for line in cli(*words).out.splitlines()]
    assert ["f", "float32", "2", "nan", "nan", "nan"] in rows
    assert ["b", "bool", "2", "0", "1", "0.5"] in rows


@pytest.mark.parametrize("sizes", [(), ("--min-shapes", "x:1x4", "--max-shapes", "x:8x4")])
def test_verify_against_the_model_and_against_the_records(cli: Run, sizes: tuple[str, ...]) -> None:
    assert cli("deploy", "net.py:build", *DEPLOY, *sizes).code == 0
    records, model = (
        cli("verify", "net-build-loopback"),
        cli("verify", "net-build-loopback", "--model", "net.py:build"),
    )
    recorded, anew = ("13 samples", "18 samples") if sizes else ("6 samples", "11 samples")
    against = "the PyTorch model, unpatched"
    assert records.out.startswith(
        f"verified against the recorded outputs of {against} on {recorded}\n"
    )
    assert model.out.startswith(f"verified against {against} on {anew}\n")
    own = cli(
        "verify", "net-build-loopback", "--model", "net.py:build", "--input", "x=2x4", "--json"
    )
    assert own.document["verification"]["samples"] == 6  # and probes that resemble it
    tight = cli("verify", "net-build-loopback", "--rtol", "0", "--atol", "-1")
    assert (tight.code, tight.err) == (
        2,
        'error: invalid atol "-1.0": expected a number of at least 0\n',
    )


def test_verify_reads_an_npz_with_several_items(cli: Run, here: Path, deployed: Ran) -> None:
    np.savez(here / "many.npz", x=np.ones((3, 2, 4), np.float32))
    np.savez(here / "one.npz", x=np.ones((2, 4), np.float32))
    words = ("verify", "net-build-loopback", "--model", "net.py:build", "--input")
    many, one = (cli(*words, name, "--json").document for name in ("many.npz", "one.npz"))
    assert many["verification"]["basis"]["labels"][:3] == ["item 0", "item 1", "item 2"]
    assert one["verification"]["basis"]["labels"].count("example") == 1


def test_verify_an_artifact_without_records(cli: Run) -> None:
    assert cli("convert", "loopback", "tiny.onnx", "--work-dir", "out").code == 0
    ran = cli("verify", "out")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: '")
    assert ran.err.endswith(
        "out' was built without a reference, so it contains no expected outputs\n"
        "hint: name the model: enginebay verify ARTIFACT --model MODEL --input NAME=SHAPE\n"
    )
    assert cli("verify", "out", "--model", "tiny.onnx", "--input", "x=1x3x4x4").code == 0


def test_inspect_prints_the_origin_of_an_artifact(cli: Run, here: Path, deployed: Ran) -> None:
    text = cli("inspect", "net-build-loopback").out
    for line in (
        r"artifact  net-build-loopback",
        r"verdict   recorded: verified against the PyTorch model, unpatched on 6 samples; \S+Z",
        r"backend   loopback [\d.]+",
        r"plugin    temporary-loopback 0",
        r"engine    onnx\.reference [\d.]+ on cpu, fp32",
        r"params    .*gain=1\.0.*",
        r"ir        onnx by torch\.onnx torchscript, opset \d+, sha256 [0-9a-f]{64}",
        r"made      \S+Z by enginebay [\d.]+, torch .*",
        r"on        .*, Python [\d.]+",
        r"command   cd .* && enginebay deploy net\.py:build .*",
        r"input     x float32\[2, 4\]",
        r"output    output float32\[2, 3\]",
        r"model\.onnx +[\d.]+ (B|KiB)  [0-9a-f]{64}",
    ):
        assert re.search(f"^{line}$", text, re.M), line


def test_inspect_an_ir_file(cli: Run, here: Path) -> None:
    text = cli("inspect", "tiny.onnx").out
    assert re.match(r"ir +onnx by file, opset \d+\nfile +tiny.onnx \(\d+ B\)\nsha256 +", text)
    assert re.search(r"input +x float32\[1, 3, 4, 4\]\noutput +y float32\[1, 3, 4, 4\]\n", text)
    ir = cli("inspect", "tiny.onnx", "--json").document["ir"]
    assert (ir["kind"], ir["path"]) == ("onnx", str(here / "tiny.onnx"))
    assert ir["sha256"] in text
    exported = cli("export", "net.py:build", "--exporter", "torchscript", "--json").document["ir"]
    assert exported["exporter"] == "torch.onnx torchscript"
    assert exported["inputs"] == [{"name": "x", "dtype": "float32", "dims": [2, 4]}]


def test_a_manifest_cannot_move_the_cursor(cli: Run, here: Path) -> None:
    assert cli("convert", "loopback", "tiny.onnx", "--work-dir", "out").code == 0
    path = here / "out" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["command"] = "\x1b[2Jgone\nverdict verified"
    path.write_text(json.dumps(manifest))
    ran = cli("inspect", "out")
    assert "\x1b" not in ran.out
    assert r"command   \x1b[2Jgone\nverdict verified" in ran.out


def test_a_crashed_engine_is_a_verdict(cli: Run, here: Path) -> None:
    ran = crash(cli, "crashing")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(
        "error: crashed: the engine of backend 'crashing' ended with SIGSEGV before it returned"
    )
    assert not (here / "out").exists()


def test_a_crashed_engine_can_be_published_and_inspected(cli: Run, here: Path) -> None:
    ran = crash(cli, "crashing", "--allow-mismatch")
    assert ran.code == 0, ran.err
    assert re.search(r"^verdict +crashed: .*SIGSEGV", ran.out, re.M)
    assert "\nengine " not in ran.out, "nothing can be said about it"
    assert next_commands(ran.out) == ["enginebay inspect out"]
    assert cli("inspect", "out").code == 0
    shutil.rmtree(here / "out")


@pytest.mark.slow
def test_a_hanging_engine_counts_as_crashed(cli: Run, here: Path, soon: int) -> None:
    ran = crash(cli, "hanging", "--timeout", str(3 * soon))
    assert (ran.code, ran.out) == (1, "")
    assert re.match(rf"error: crashed: .*\b{3 * soon} s", ran.err), ran.err
    assert not (here / "out").exists()


CRASHING = """\
import os, signal, threading
from enginebay_testing.loopback import *
from enginebay_testing import loopback
to_backend, check_env = loopback.to_backend, loopback.check_env

class Bad(loopback.LoopbackWrapper):
    def execute(self, feed):
        {action}

@eb.hookimpl
def build_wrapper(request): return Bad(request)

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name="{name}", irs=("onnx",), params=LoopbackParams)
"""
ACTIONS = {
    "crashing": "os.kill(os.getpid(), signal.SIGSEGV)",
    "hanging": "threading.Event().wait()",
}


def crash(cli: Run, name: str, *more: str) -> Ran:
    from enginebay_testing import temporary_backend

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEBAY_BACKENDS", f"loopback,{name}")
        with temporary_backend(name, CRASHING.format(name=name, action=ACTIONS[name])):
            return cli("deploy", "tiny.onnx", "--backend", name, "--work-dir", "out", *more)


def test_rewriters_are_listed_compactly_and_completely(cli: Run) -> None:
    from enginebay_testing import temporary_backend

    pack = (
        "import enginebay as eb\n"
        "pack = eb.RewriterSet()\n"
        "@pack.function('torch.Tensor.relu')\n"
        "def relu(ctx, self): return ctx.origin_func(self)\n"
        "@pack.function('torch.nn.functional.gelu')\n"
        "def gelu(ctx, *args, **more): return ctx.origin_func(*args, **more)\n"
        "@eb.hookimpl\n"
        "def rewriters(request): return pack\n"
    )
    with temporary_backend("pack", pack, group="enginebay.plugins"):
        ran = cli("deploy", "net.py:build", *DEPLOY)
        document = cli("deploy", "net.py:build", *DEPLOY, "--work-dir", "two", "--json").document
    assert re.search(r"^rewriters  fired: torch\.Tensor\.relu \(\d+\)$", ran.out, re.M), ran.out
    assert "\n           never fired: torch.nn.functional.gelu\n" in ran.out
    assert set(document["rewriting"]["fired"]) == {"torch.Tensor.relu"}
    assert "torch.nn.functional.gelu" in document["rewriting"]["never_fired"]


def test_main_returns_an_exit_code(cli: Run) -> None:
    assert main(["backends"]) == 0
    assert main(["run", "nowhere"]) == 1
