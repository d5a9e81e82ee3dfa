"""Operators of the user's own: in Python, and in a library built against OpenVINO's headers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import openvino
import pytest
import torch

import enginebay as eb
from enginebay.errors import ArtifactError, ConversionError, ModelSourceError, ParamsError
from enginebay_testing.command_runs import call_command

OWN = Path(__file__).parent / "own"
PYTHON = f"{OWN}/openvino_test_ops.py"
AS_OPERATOR = (f"{PYTHON}:Twice", f"{PYTHON}:read_twice")
TWICE = "(float[n] x) => (float[n] y) { t = example.Twice(x) y = Relu(t) }"
WANTED = (
    "expected a class derived from openvino.Op, or a ConversionExtension or OpExtension of "
    "openvino.frontend.onnx"
)
X = np.array([-1, 3], np.float32)


@pytest.fixture
def model(write):
    return write(TWICE, imports='"": 17, "example": 1')


@pytest.fixture
def made(model, tmp_path):
    """Convert the model with extensions."""

    def made(*extensions, **params):
        return eb.convert(
            model,
            backend="openvino",
            work_dir=tmp_path / "made",
            params={"extensions": [str(text) for text in extensions], **params},
        )

    return made


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    compiler = shutil.which("g++")
    headers = Path(openvino.__file__).parent / "include"
    if compiler is None or not headers.is_dir():
        pytest.skip("no g++, or no headers in the wheel of OpenVINO")
    libraries = [*headers.with_name("libs").glob("libopenvino.so*")]
    libraries += headers.with_name("libs").glob("libopenvino_onnx_frontend.so*")
    target = tmp_path_factory.mktemp("library") / "libtwice.so"
    command = [compiler, "-std=c++17", "-O0", "-shared", "-fPIC", f"-I{headers}", "-o", target]
    subprocess.run([*command, OWN / "twice.cpp", *libraries], check=True)
    return target


def check(artifact):
    with eb.load(artifact) as wrapper:
        for _ in range(20):  # OpenVINO holds its own references to the extension
            assert wrapper({"x": X})["y"].tolist() == [0, 6]


def test_without_an_extension_the_model_is_refused(made):
    with pytest.raises(ConversionError, match="No conversion rule found for operations: example"):
        made()


def test_a_conversion_extension_uses_openvinos_operators(made):
    check(made(f"{PYTHON}:multiply"))


def test_a_python_operator_runs(made):
    check(made(*AS_OPERATOR))


def test_a_library_is_stored_in_the_artifact(made, library):
    artifact = made(library)
    assert Path("extensions/libtwice.so") in artifact.files
    check(artifact)


def test_an_object_of_a_package_is_imported(made, monkeypatch):
    monkeypatch.syspath_prepend(OWN)
    artifact = made("openvino_test_ops:Twice", "openvino_test_ops:read_twice")
    assert artifact.files == (Path("model.xml"),)
    check(artifact)


def test_paths_with_a_colon_are_accepted(made, library, tmp_path):
    folder = tmp_path / "a:b"
    folder.mkdir()
    ops = shutil.copy(PYTHON, folder / "ops.py")
    artifact = made(shutil.copy(library, folder), f"{ops}:multiply")
    assert artifact.files[-2:] == (Path("extensions/libtwice.so"), Path("extensions/ops.py"))
    check(artifact)


def test_extension_files_move_with_the_artifact(made, tmp_path):
    file = shutil.copy(PYTHON, tmp_path / "ops.py")
    made(f"{file}:Twice", f"{file}:read_twice")
    Path(file).unlink()
    moved = (tmp_path / "made").rename(tmp_path / "moved")
    check(moved)
    # An import would leave __pycache__, and --overwrite does not remove it.
    assert [path.name for path in (moved / "extensions").iterdir()] == ["ops.py"]
    with (moved / "extensions" / "ops.py").open("a") as edited:
        edited.write("\n")
    with pytest.raises(ArtifactError, match=r"extensions/ops\.py"):
        eb.load(moved)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def symbolic(g, x):
        return g.op("example::Twice", x)


def test_a_custom_operator_is_verified_against_torch(as_model, tmp_path):
    made = eb.deploy(
        as_model(lambda x: Twice.apply(x).relu()),
        torch.tensor([-1.0, 3.0]),
        backend="openvino",
        work_dir=tmp_path / "out",
        params={"extensions": AS_OPERATOR},
        export=eb.ExportOptions(ir="onnx", exporter="torchscript"),
    )
    assert made.verdict == "verified"
    assert 'type="Twice"' in (made.artifact.path / "model.xml").read_text()


def test_a_custom_operator_runs_with_a_cache(made, tmp_path):
    artifact = made(*AS_OPERATOR, cache_dir=str(tmp_path / "cache"))
    for _ in range(2):
        check(artifact)


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_a_custom_operator_runs_in_fp16_and_int8(model, tmp_path, precision):
    if precision == "int8":
        pytest.importorskip("nncf", reason="int8 needs NNCF, which is not installed")
    made = eb.convert(
        model,
        backend="openvino",
        work_dir=tmp_path / "made",
        params={"extensions": AS_OPERATOR, "precision": precision},
        data=[{"x": X}, {"x": -X}] if precision == "int8" else None,
    )
    check(made)


def test_an_unlisted_operator_is_refused(made):
    with pytest.raises(ConversionError) as raised:
        made(f"{PYTHON}:read_twice")  # converting loads it once
    assert "Cannot create Twice layer" in str(raised.value)
    assert raised.value.hint == "add the operator's class or library to --extensions"


@pytest.mark.parametrize(
    ("extension", "error", "message", "hint"),
    [
        ("lib/ops.so", ParamsError, "extension 'lib/ops.so' is not a file", None),
        (
            PYTHON,
            ParamsError,
            f"extension '{PYTHON}' is a Python file without the name of an object in it",
            f"use {PYTHON}:NAME, where NAME is a subclass of openvino.Op or an extension",
        ),
        (
            f"{PYTHON}:Twise",
            ModelSourceError,
            f"'{PYTHON}:Twise': there is no 'Twise' in '{PYTHON}'",
            "did you mean 'Twice'?",
        ),
        (
            f"{PYTHON}:no_extension",
            ParamsError,
            f"extension '{PYTHON}:no_extension': {WANTED}, found int",
            None,
        ),
    ],
    ids=["no file", "no object", "misspelt", "something else"],
)
def test_an_invalid_extension_is_refused(made, tmp_path, extension, error, message, hint):
    with pytest.raises(error) as raised:
        made(extension)
    assert (str(raised.value), raised.value.hint) == (message, hint)
    assert not (tmp_path / "made").exists()


def test_a_library_that_does_not_load_is_refused(made, tmp_path):
    (tmp_path / "broken.so").write_bytes(b"this is not a library")
    with pytest.raises(ConversionError) as raised:
        made(tmp_path / "broken.so")
    assert str(raised.value).startswith(f"extension '{tmp_path}/broken.so' cannot be loaded: ")
    version = openvino.__version__.partition("-")[0]
    assert raised.value.hint == f"build the extension for OpenVINO {version} and this platform"


def test_two_files_with_the_same_name_are_refused(made, tmp_path):
    file = tmp_path / "openvino_test_ops.py"
    file.write_text(Path(PYTHON).read_text())
    with pytest.raises(ParamsError) as raised:
        made(f"{PYTHON}:multiply", f"{file}:Twice")
    assert str(raised.value) == "two different extension files have the name 'openvino_test_ops.py'"


# -- check-env ------------------------------------------------------------------------------------


def check_custom_ops(backend, *extensions):
    report = backend.check_env(backend.Params(extensions=extensions), with_custom_ops=True)
    (check,) = (check for check in report.checks if check.name == "custom ops")
    assert (check.tier, report.ok) == ("device", check.status == "ok")
    return check


def test_check_env_loads_the_extensions(backend):
    assert check_custom_ops(backend, *AS_OPERATOR).found == ", ".join(AS_OPERATOR)


def test_check_env_fails_without_extensions(backend):
    check = check_custom_ops(backend)
    assert (check.found, check.wanted) == ("none is specified", "at least one that loads")
    assert check.fix == "--extensions FILE"
    assert not backend.is_available(with_custom_ops=True)


def test_check_env_names_the_extension_that_does_not_load(capfd):
    command = ("check-env", "openvino", "--with-custom-ops", "--extensions", "nowhere.so")
    code, out, _ = call_command(capfd, *command)
    assert code == 3
    assert "custom ops: extension 'nowhere.so' is not a file" in out
    assert "expected: operators that load: nowhere.so" in out
