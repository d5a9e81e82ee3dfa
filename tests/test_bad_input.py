"""Bad input on the command line: a single clear error line, the exit code, and no lost files."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginebay.environment import install_command
from enginebay_testing.command_runs import Ran

from .conftest import derived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .conftest import Run

    Snapshot = Callable[[Path], dict[str, bytes]]

ORT = ("--backend", "onnxruntime")
DEPLOY = (*ORT, "--exporter", "torchscript", "--work-dir", "out")


def onnx_file(path: Path, op: str = "Relu", *, opset: int = 17, dims: Any = (2, 4)) -> Path:
    """Write a model of a single operator: y = op(x)."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n in ("x", "y"))
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "g", [x], [y])
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A verified artifact of Relu on ONNX Runtime."""
    from enginebay import deploy

    folder = tmp_path_factory.mktemp("made")
    onnx_file(folder / "relu.onnx")
    deploy(folder / "relu.onnx", backend="onnxruntime", work_dir=folder / "artifact")
    return folder / "artifact"


@pytest.fixture
def artifact(made: Path, here: Path) -> Path:
    """A copy of the artifact at ``out``, which a test may damage."""
    return Path(shutil.copytree(made, here / "out"))


def refused(ran: Ran, code: int, error: str, hint: str | None = None) -> None:
    """Check the exit code, error line and hint; an error that starts with ^ is a pattern."""
    assert "Traceback" not in ran.err
    lines = ran.err.splitlines()
    assert (ran.code, ran.out, len(lines)) == (code, "", 2 if hint else 1), ran.err
    if error.startswith("^"):
        assert re.fullmatch(error[1:], lines[0].removeprefix("error: ")), lines[0]
    else:
        assert lines[0] == f"error: {error}"
    if hint:
        assert lines[1] == f"hint: {hint}"


# ── the export, before the model is built ───────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (
            ("deploy", *ORT, "--opset", "3"),
            "argument --opset: '3' does not fit ExportOptions.opset: expected int >= 7",
            "enginebay deploy -h",
        ),
        (
            ("export", "--output", "m.xyz"),
            "unknown suffix of 'm.xyz': expected .onnx, .pt, .pt2",
            "pass --ir",
        ),
        (
            ("export", "--ir", "onnx", "--output", "m.pt"),
            "'m.pt' has the suffix of torchscript, but onnx was requested",
            "name the file m.onnx, or leave --ir out",
        ),
    ],
)
def test_bad_export_options_are_refused_before_the_model_is_built(
    cli: Run, here: Path, words: tuple[str, ...], error: str, hint: str
) -> None:
    (here / "heavy.py").write_text("def build():\n    raise SystemExit('it was built')\n")
    command, *flags = words
    refused(cli(command, "heavy.py:build", *flags), 2, error, hint)
    assert [path.name for path in here.iterdir() if path.name.startswith("m.")] == []


# ── the work directory ──────────────────────────────────────────────────────────────────────────


def test_work_dir_with_an_artifact_is_not_overwritten(
    cli: Run, here: Path, artifact: Path, snapshot: Snapshot
) -> None:
    before = snapshot(here)
    refused(
        cli("deploy", "models.py:build", *DEPLOY),
        2,
        f'"{here}/out" exists and contains an artifact',
        "--overwrite, or choose another --work-dir",
    )
    assert snapshot(here) == before


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
def test_work_dir_with_other_files_is_never_overwritten(
    cli: Run, here: Path, snapshot: Snapshot, overwrite: tuple[str, ...]
) -> None:
    (here / "out").mkdir()
    (here / "out" / "thesis.tex").write_text("years of work")
    before = snapshot(here)
    refused(
        cli("deploy", "models.py:build", *DEPLOY, *overwrite),
        2,
        f'"{here}/out" exists and is not an artifact: expected an empty directory or a new path',
        "choose another --work-dir",
    )
    assert snapshot(here) == before


def test_an_artifact_with_a_file_of_the_users_is_not_overwritten(
    cli: Run, artifact: Path, snapshot: Snapshot, here: Path
) -> None:
    (artifact / "notes.txt").write_text("do not lose this")
    before = snapshot(here)
    refused(
        cli("deploy", "models.py:build", *DEPLOY, "--overwrite"),
        2,
        f'"{artifact}" also contains "notes.txt", which is not part of the artifact',
        "move this file away, or choose another --work-dir",
    )
    assert snapshot(here) == before


def test_work_dir_that_is_a_file_is_refused(cli: Run, here: Path) -> None:
    (here / "out").write_text("a file")
    for folder in ("out", "out/deeper"):
        refused(
            cli("deploy", "models.py:build", *ORT, "--work-dir", folder, "--overwrite"),
            2,
            f'"{here}/out" is a file: expected a directory',
            "choose another --work-dir",
        )
    assert (here / "out").read_text() == "a file"


def test_work_dir_that_is_a_symlink_is_refused(cli: Run, here: Path, artifact: Path) -> None:
    (here / "link").symlink_to(artifact)
    refused(
        cli("deploy", "models.py:build", *ORT, "--work-dir", "link", "--overwrite"),
        2,
        f'"{here}/link" is a symbolic link: expected a directory, or a new path',
        f'name the target of the link: --work-dir "{artifact}"',
    )
    assert (here / "link").is_symlink()


def test_empty_work_dir_is_accepted(cli: Run, here: Path) -> None:
    (here / "out").mkdir()
    onnx_file(here / "relu.onnx")
    assert cli("deploy", "relu.onnx", *DEPLOY).code == 0
    assert (here / "out" / "manifest.json").is_file()


def test_work_dir_is_checked_before_the_model(cli: Run, artifact: Path) -> None:
    ran = cli("deploy", "models.py:raising", *DEPLOY)
    assert "exists and contains an artifact" in ran.err


@pytest.mark.parametrize("model", ["models.py:raising", "wrong.onnx"])
def test_a_failed_overwrite_leaves_the_old_artifact(
    cli: Run, here: Path, artifact: Path, snapshot: Snapshot, model: str
) -> None:
    onnx_file(here / "wrong.onnx", "NoSuchOperator")
    before = snapshot(here)
    assert cli("deploy", model, *DEPLOY, "--overwrite").code == 1
    assert snapshot(here) == before
    assert cli("verify", "out").code == 0


def test_an_overwrite_replaces_the_artifact(cli: Run, here: Path, artifact: Path) -> None:
    assert cli("deploy", "models.py:build", *DEPLOY, "--overwrite").code == 0
    assert cli("inspect", "out", "--json").document["manifest"]["outputs"][0]["name"] == "output"
    assert {path.name for path in here.iterdir()} - {"__pycache__"} == {"models.py", "out"}


@pytest.fixture
def small_disk(here: Path) -> Iterator[Path]:
    """A mounted disk of 64 KiB."""
    disk = here / "disk"
    disk.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError) as err:
        pytest.skip(f"no small disk can be mounted here: {err}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_full_disk_is_reported_and_leaves_no_files(cli: Run, here: Path, small_disk: Path) -> None:
    (here / "big.py").write_text(
        "from torch import nn, ones\ndef build(): return nn.Linear(256, 256), ones(1, 256)\n"
    )
    refused(
        cli(
            *("deploy", "big.py:build", *ORT, "--exporter", "torchscript"),
            *("--work-dir", small_disk / "out"),
        ),
        1,
        f'^(the artifact "{small_disk}/out" cannot be written|.*): No space left on device',
        "free some space, or choose another --work-dir",
    )
    assert list(small_disk.iterdir()) == []


def test_full_disk_during_convert_is_reported_and_leaves_no_files(
    cli: Run, here: Path, small_disk: Path
) -> None:
    values = np.zeros((256, 256), np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 256]) for n in "xy")
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(values, "w")])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), here / "big.onnx")
    refused(
        cli("convert", "onnxruntime", "big.onnx", "--work-dir", small_disk / "out"),
        1,
        f'the artifact "{small_disk}/out" cannot be written: No space left on device',
        "free some space, or choose another --work-dir",
    )
    assert list(small_disk.iterdir()) == []


def bind_root() -> None:
    """Remove root's right to ignore permissions, from the next exec on."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE


def test_unwritable_folder_is_reported(here: Path) -> None:
    onnx_file(here / "relu.onnx")
    (here / "locked").mkdir(mode=0o555)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "enginebay", "deploy", "relu.onnx", *ORT),
            *("--work-dir", "locked/out"),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=bind_root if os.geteuid() == 0 else None,
    )
    refused(
        Ran(done.returncode, done.stdout, done.stderr),
        1,
        'the artifact "locked/out" cannot be written: Permission denied',
        "choose another --work-dir",
    )
    assert list((here / "locked").iterdir()) == []


def test_read_only_disk_is_reported(cli: Run, here: Path, small_disk: Path) -> None:
    onnx_file(here / "relu.onnx")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    refused(
        cli("deploy", "relu.onnx", *ORT, "--work-dir", small_disk / "out"),
        1,
        f'the artifact "{small_disk}/out" cannot be written: Read-only file system',
        "choose another --work-dir",
    )


# ── damaged artifacts ───────────────────────────────────────────────────────────────────────────

COMMANDS = ("run", "verify", "inspect")
COPY = "copy the whole artifact again, or rebuild it with the command in its manifest"


def spoil(artifact: Path, how: str) -> str:
    """Damage the model file and return the error that every command must print."""
    file = artifact / "model.onnx"
    data = file.read_bytes()
    size = len(data)
    if how == "truncated":
        file.write_bytes(data[:-10])
        return f'"{file}" is truncated: expected {size} bytes, found {size - 10}'
    if how == "empty":
        file.write_bytes(b"")
        return f'"{file}" is empty: expected {size} bytes, found 0'
    if how == "edited":
        file.write_bytes(data.replace(b"Relu", b"Selu"))
        return rf'^"{re.escape(str(file))}" was changed: expected sha256 \w{{64}}, found \w{{64}}'
    if how == "foreign":
        file.write_bytes(b"#!/bin/sh\n" * 100)
        return f'"{file}" was changed: expected {size} bytes, found 1000'
    if how == "gone":
        file.unlink()
        return f'"{file}" is missing, but listed in the manifest'
    if how == "a directory":
        file.unlink()
        file.mkdir()
        return f'"{file}" is not a regular file'
    file.unlink()
    file.symlink_to("/etc/hostname")
    return f'"{file}" leads out of the artifact, to "{os.path.realpath("/etc/hostname")}"'


DAMAGE = ("truncated", "empty", "edited", "foreign", "gone", "a directory", "a link")


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_file_is_refused_by_every_command(cli: Run, artifact: Path, how: str) -> None:
    error = spoil(artifact, how)
    for command in COMMANDS:
        refused(cli(command, "out"), 1, error, COPY)
    document = cli("run", "out", "--json").document
    assert document["error"]["type"] == "ArtifactError"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_artifact_can_be_overwritten(cli: Run, artifact: Path, how: str) -> None:
    spoil(artifact, how)
    onnx_file(artifact.parent / "relu.onnx")
    ran = cli("deploy", "relu.onnx", *DEPLOY, "--overwrite")
    if how == "a directory":  # it is empty, so nothing is lost
        assert ran.code in (0, 2)
    else:
        assert ran.code == 0, ran.err
        assert cli("verify", "out").code == 0


def edit(artifact: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    path = artifact / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    return path


def test_manifest_of_a_newer_format_is_refused(cli: Run, artifact: Path) -> None:
    edit(artifact, lambda m: m.update(format=7, enginebay_version="9.0", novel={}))
    for command in COMMANDS:
        refused(
            cli(command, "out"),
            1,
            '"out/manifest.json" was made by Enginebay 9.0 (manifest format 7, supported: 1)',
            install_command("enginebay>=9.0", "--upgrade"),
        )


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "is not an Enginebay manifest: it is empty"),
        ("{", "is not an Enginebay manifest: Input data was truncated"),
        (
            '{"name": "web app"}',
            "^.*is not an Enginebay manifest: .*missing required field `format`.*",
        ),
        ("\0\1", "^.*is not an Enginebay manifest: JSON is malformed: .*"),
    ],
)
def test_invalid_manifest_is_refused(cli: Run, artifact: Path, content: str, error: str) -> None:
    where = artifact / "manifest.json"
    where.write_text(content)
    for command in COMMANDS:
        refused(
            cli(command, "out"), 1, error if error[0] == "^" else f'"out/manifest.json" {error}'
        )


def test_manifest_with_a_wrong_type_is_refused(cli: Run, artifact: Path) -> None:
    edit(artifact, lambda m: m.update(inputs=[{"name": 1}]))
    refused(
        cli("run", "out"),
        1,
        '"out/manifest.json" does not fit manifest format 1: Expected `str`, got `int` - '
        "at `$.inputs[0].name`",
    )


def test_manifest_path_outside_the_artifact_is_refused(cli: Run, artifact: Path) -> None:
    edit(artifact, lambda m: m["files"][0].update(path="../../etc/passwd"))
    refused(
        cli("run", "out"),
        1,
        "\"out/manifest.json\" lists the file '../../etc/passwd': "
        "expected a path inside the artifact",
    )


def test_missing_backend_of_a_manifest_is_named_with_its_package(cli: Run, artifact: Path) -> None:
    edit(artifact, lambda m: m.update(backend="tensorrt"))
    for command in ("run", "verify"):
        ran = cli(command, "out")
        assert ran.code == 3
        assert ran.err.startswith("error: no backend 'tensorrt' is installed; installed: ")
        assert install_command("enginebay-tensorrt") in ran.err
    assert cli("inspect", "out").code == 0


def test_unknown_manifest_parameter_is_refused_with_a_suggestion(cli: Run, artifact: Path) -> None:
    edit(artifact, lambda m: m["params"].update(precison="fp16"))
    for command in ("run", "verify"):
        ran = cli(command, "out")
        assert ran.code == 2
        assert "'precison'" in ran.err
        assert "did you mean 'precision'?" in ran.err


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("nowhere", '"nowhere" does not exist: expected the directory of an artifact'),
        ("models.py", '"models.py" is not a directory: expected the directory of an artifact'),
        (".", '"." is not an artifact: it contains no manifest.json'),
    ],
)
def test_path_without_an_artifact_is_refused(cli: Run, where: str, error: str) -> None:
    for command in COMMANDS:
        refused(cli(command, where), 1, error)


def test_unreadable_recorded_samples_are_refused(cli: Run, artifact: Path) -> None:
    """A file with a matching digest can still be invalid: the error is a single line."""
    import hashlib

    data = b"PK\x03\x04 not really"
    (artifact / "samples.npz").write_bytes(data)

    def resign(manifest: dict[str, Any]) -> None:
        entry = next(e for e in manifest["files"] if e["path"] == "samples.npz")
        entry.update(sha256=hashlib.sha256(data).hexdigest(), size=len(data))

    edit(artifact, resign)
    for command in ("run", "verify"):
        refused(cli(command, "out"), 1, "^'samples.npz' does not contain recorded samples: .*")


# ── inputs ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "error", "hint"),
    [
        (["y=2x4"], "unknown input 'y': the model takes x", "rename 'y' to 'x'"),
        (
            ["x=3x4"],
            "input 'x' has size 3 in dimension 0 of (3, 4), expected 2: x float32[2, 4]",
            "deploy with --dynamic x:0 to make this dimension dynamic",
        ),
        (["x=8"], "input 'x' has 1 dimensions (8,), expected 2: x float32[2, 4]", None),
        (
            ["x=wrong.npy"],
            "input 'x' has dtype float64, expected float32",
            "convert it: x.astype('float32')",
        ),
        (["x=none.npy"], "no file 'none.npy'", None),
        (
            ["x=models.npy"],
            "'models.npy' cannot be read as NumPy arrays",
            "write the file with numpy.save or numpy.savez",
        ),
        (
            ["x=pickled.npy"],
            "'pickled.npy' cannot be read as NumPy arrays",
            "write the file with numpy.save or numpy.savez",
        ),
        (["x=2x4", "x=2x4"], "'x=2x4': input 'x' is specified twice", None),
        (["x=2xq"], "'x=2xq' is not a valid input: expected NAME=SHAPE or NAME=FILE", "^write .*"),
        (["x=2x4:flaot32"], "unknown dtype 'flaot32'", "did you mean 'float32'?"),
    ],
)
def test_run_refuses_wrong_inputs(
    cli: Run, artifact: Path, given: list[str], error: str, hint: str | None
) -> None:
    np.save(artifact.parent / "wrong.npy", np.zeros((2, 4)))
    np.save(artifact.parent / "pickled.npy", np.array([print], object), allow_pickle=True)
    (artifact.parent / "models.npy").write_text("text")
    ran = cli("run", "out", *(word for text in given for word in ("--input", text)))
    if hint and hint.startswith("^"):
        assert re.fullmatch(f"error: {re.escape(error)}\nhint: {hint[1:]}\n", ran.err)
    else:
        refused(ran, 2, error, hint)


@pytest.mark.parametrize(
    ("model", "given", "error"),
    [
        (
            "models.py:build",
            ["y=2x4"],
            (
                "the model's forward raised TypeError: linear.*\n"
                r"hint: forward\(x\) has no parameter 'y', so the dict was passed as one "
                "argument; use the names of the parameters"
            ),
        ),
        (
            "models.py:build",
            ["x=2x4", "y=2x4"],
            r"the example inputs do not match forward\(x\): got an unexpected keyword argument 'y'",
        ),
        (
            "models.py:build",
            ["x=2x5"],
            "the model's forward raised RuntimeError: mat1 and mat2 shapes cannot be multiplied.*",
        ),
        ("models.py:build", ["x=2x4:int64"], "the model's forward raised RuntimeError: .*dtype.*"),
        (
            "models.py:Net",
            [],
            ("'models.py:Net' has no example inputs\nhint: pass --input NAME=1x3x224x224, or .*"),
        ),
        ("relu.onnx", ["y=2x4"], "unknown input 'y': the model takes x\nhint: rename 'y' to 'x'"),
        (
            "relu.onnx",
            ["x=2x5"],
            (
                r"input 'x' has size 5 in dimension 1 of \(2, 5\), expected 4: x float32\[2, 4\]\n"
                "hint: give it 4: the file fixes this size"
            ),
        ),
        (
            "relu.onnx",
            ["x=2x4:int64"],
            "input 'x': expected dtype float32, found int64\nhint: leave ':int64' out",
        ),
        (
            "relu.onnx",
            ["x=wrong.npy"],
            "input 'x' has dtype float64, expected float32\nhint: convert it: .*",
        ),
    ],
)
def test_deploy_refuses_wrong_inputs(
    cli: Run, here: Path, model: str, given: list[str], error: str
) -> None:
    onnx_file(here / "relu.onnx")
    np.save(here / "wrong.npy", np.zeros((2, 4)))
    ran = cli("deploy", model, *DEPLOY, *(word for one in given for word in ("--input", one)))
    assert ran.code == (1 if "forward raised" in error else 2)
    assert ran.out == ""
    assert re.fullmatch(f"error: {error}\n", ran.err), ran.err
    assert not (here / "out").exists()


# ── models ──────────────────────────────────────────────────────────────────────────────────────


def test_error_in_forward_is_reported_in_a_single_line(cli: Run, here: Path) -> None:
    ran = cli("deploy", "models.py:raising", *DEPLOY)
    refused(ran, 1, "^.*forward.*ValueError: no weights in here.*", None)
    assert not (here / "out").exists()
    chain = cli("deploy", "models.py:raising", *DEPLOY, "--traceback").err
    assert 'raise ValueError("no weights in here' in chain


def test_error_at_the_largest_size_names_that_size(cli: Run, here: Path) -> None:
    (here / "picky.py").write_text(
        "from torch import nn, ones\n"
        "class Picky(nn.Module):\n"
        "    def forward(self, x):\n"
        "        if x.shape[0] > 3: raise ValueError('too large for me')\n"
        "        return x\n"
        "def build(): return Picky(), ones(2, 4)\n"
    )
    ran = cli("deploy", "picky.py:build", *DEPLOY, "--max-shapes", "x:8x4")
    assert ran.code == 1
    assert "too large for me" in ran.err
    assert "8" in ran.err, (
        "the message names the size, since the user did not pass an input of this size"
    )


@pytest.mark.parametrize(
    ("source", "content", "error", "hint"),
    [
        ("none.onnx", None, "^no file '.*none.onnx'", None),
        ("none.pt", None, "^no file '.*none.pt'", None),
        ("none.pt2", None, "^no file '.*none.pt2'", None),
        ("modles.py:build", None, "no file 'modles.py'", "did you mean 'models.py'?"),
        (
            "models.py:biuld",
            None,
            "'models.py:biuld': there is no 'biuld' in 'models.py'",
            "did you mean 'build'?",
        ),
        (
            "models.py",
            None,
            "'models.py' does not specify which model in the file",
            "write models.py:NAME; available: Net, build, Raising, raising, Nan, nan",
        ),
        (
            "no_such_module:x",
            None,
            "no module 'no_such_module'",
            "run the command in the module's folder, or install the module",
        ),
        (
            "broken.py:x",
            "def f(:\n",
            "^importing 'broken.py' raised SyntaxError: invalid syntax .*broken.py, line 1.*",
            None,
        ),
        (
            "broken.py:x",
            "import json.absent\nx = 1\n",
            "importing 'broken.py' raised ModuleNotFoundError: No module named 'json.absent'",
            None,
        ),
        (
            "broken.py:x",
            "raise SystemExit(3)\nx = 1\n",
            "importing 'broken.py' raised SystemExit: 3",
            None,
        ),
        (
            "broken.py:x",
            "x = {'weight': 1}\n",
            (
                "^'broken.py:x' is or returns an object of type dict; expected an nn.Module, or a "
                "cal.*"
            ),
            "a state_dict contains only weights: load them into a model, and pass the model",
        ),
        (
            "broken.py:x",
            "def x(depth): pass\n",
            "'broken.py:x' cannot be called without arguments; required arguments: depth",
            (
                "pass the name of a function that takes no arguments and returns the model; "
                "if the function is the model itself, pass --input depth=1x3x224x224"
            ),
        ),
        (
            "broken.py:x",
            "def x(): raise RuntimeError('no\\nnet')\n",
            "calling 'broken.py:x' raised RuntimeError: no",
            None,
        ),
        (
            "weights.pth",
            "",
            "'weights.pth' contains weights, not a model",
            "also pass the model of these weights: file.py:attr --weights weights.pth",
        ),
        (
            "resnet50",
            None,
            "'resnet50' is not a valid model name",
            "^write the name of the library before the model: timm:resnet50, .*",
        ),
        ("hf:bert", None, "no module 'hf'", "did you mean 'transformers:bert'?"),
        (
            "models.py:Net(4)",
            None,
            "'models.py:Net(4)' contains a call; expected only a name",
            "write a function without arguments that returns the model, and pass its name",
        ),
        ("text.onnx", "not protobuf at all", "^.*text.onnx.*", None),
        ("text.pt", "not a zip at all", "^.*text.pt.*", None),
        ("text.pt2", "not a zip at all", "^.*text.pt2.*", None),
        ("text.onnx", "", "^.*text.onnx.*", None),
    ],
)
def test_invalid_model_source_is_refused(
    cli: Run, here: Path, source: str, content: str | None, error: str, hint: str | None
) -> None:
    if content is not None:
        (here / source.partition(":")[0]).write_text(content)
    ran = cli("deploy", source, *DEPLOY)
    assert ran.code == 2, ran.err
    lines = ran.err.splitlines()
    if error.startswith("^"):
        assert re.fullmatch(f"error: {error[1:]}", lines[0]), lines[0]
    else:
        assert lines[0] == f"error: {error}"
    if hint and hint.startswith("^"):
        assert re.fullmatch(f"hint: {hint[1:]}", lines[1])
    elif hint:
        assert lines[1:] == [f"hint: {hint}"]
    assert not (here / "out").exists()


def test_external_data_outside_its_folder_is_refused(cli: Run, here: Path) -> None:
    (here / "secret").write_bytes(np.zeros(4, np.float32).tobytes())
    (here / "ir").mkdir()
    for location in ("../secret", str(here / "secret"), "link"):
        weight = numpy_helper.from_array(np.ones(4, np.float32), "w")
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=location)
        node = helper.make_node("Add", ["x", "w"], ["y"])
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy")
        graph = helper.make_graph([node], "g", [x], [y], [weight])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        (here / "ir" / "evil.onnx").write_bytes(model.SerializeToString())
        if location == "link" and not (here / "ir" / "link").exists():
            (here / "ir" / "link").symlink_to(here / "secret")
        for words in (
            ("deploy", "ir/evil.onnx", *DEPLOY),
            ("convert", "onnxruntime", "ir/evil.onnx", "--work-dir", "out"),
            ("inspect", "ir/evil.onnx"),
        ):
            ran = cli(*words)
            assert (ran.code, ran.out) == (2, ""), (words, ran)
            assert f"'{location}'" in ran.err or f'"{location}"' in ran.err, ran.err
            assert not (here / "out").exists()


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────


def test_nan_in_both_outputs_is_verified_and_reported(cli: Run) -> None:
    ran = cli("deploy", "models.py:nan", *DEPLOY)
    assert ran.code == 0, ran.err
    assert re.search(r"^output +float32 +1x2 .* ok, .*NaN", ran.out, re.M), ran.out


def test_nan_from_the_engine_alone_is_a_mismatch(cli: Run, here: Path) -> None:
    source = (
        "def change(outputs):\n    y = outputs[0].copy()\n    y[0, 0] = np.nan\n    return [y]\n"
    )
    with derived("spoilt", source):
        ran = cli(
            *("deploy", "models.py:build", "--backend", "spoilt", "--exporter", "torchscript"),
            *("--work-dir", "out", "--json"),
        )
    assert ran.code == 1
    (output,) = ran.document["verification"]["outputs"]
    assert (output["worst_index"], output["worst_found"]) == ([0, 0], "nan")
    assert not (here / "out").exists()


def test_mismatch_publishes_an_artifact_only_if_allowed(cli: Run, here: Path) -> None:
    onnx_file(here / "relu.onnx")
    with derived("off", "def change(outputs): return [y + 1 for y in outputs]\n"):
        words = ("deploy", "relu.onnx", "--backend", "off", "--work-dir", "out")
        ran = cli(*words)
        assert (ran.code, ran.out) == (1, "")
        assert re.match(
            r"error: mismatched against onnx's reference evaluator on \d samples?\n"
            r'place    "y".* at \[',
            ran.err,
        )
        assert not (here / "out").exists()
        ran = cli(*words, "--allow-mismatch")
        assert ran.code == 0
        assert cli("inspect", "out", "--json").document["manifest"]["verification"]["verdict"] == (
            "mismatched"
        )
        assert cli("verify", "out").code == 1


@pytest.mark.parametrize(
    ("name", "action", "told"),
    [
        ("crashing", "os.kill(os.getpid(), signal.SIGSEGV)", r"ended with SIGSEGV"),
        ("leaving", "os._exit(0)", r"ended with exit code 0|before it returned"),
        ("hanging", "threading.Event().wait()", r" {limit}(\.0)? s"),
    ],
)
def test_crashed_or_hanging_engine_has_the_verdict_crashed(
    cli: Run, here: Path, name: str, action: str, told: str, soon: int
) -> None:
    onnx_file(here / "relu.onnx")
    limit = 6 * soon if name == "hanging" else 600
    with derived(name, f"def change(outputs): {action}\n"):
        ran = cli(
            *("deploy", "relu.onnx", "--backend", name, "--work-dir", "out", "--timeout", limit),
            "--json",
        )
    assert ran.code == 1
    verification = ran.document["verification"]
    assert verification["verdict"] == "crashed"
    assert verification["reason"].startswith(f"the engine of backend '{name}' ")
    assert re.search(told.format(limit=limit), verification["reason"])
    assert ran.err.startswith("error: crashed: the engine of backend ")
    assert not (here / "out").exists()
