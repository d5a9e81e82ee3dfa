"""The job of a cell: the files that it names, and the folder in which artifacts are built."""

from __future__ import annotations

import os
import shlex
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from enginebay.errors import ConfigError, UsageError
from enginebay_lab.sweeps.cell_job import CellJob
from enginebay_lab.sweeps.cells import Cell
from enginebay_lab.sweeps.job_builder import attempts_folder, build_job


@pytest.fixture(autouse=True)
def _in_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def _job(**fields: object) -> CellJob:
    data = build_job(Cell(**{"model": "a:b", "backend": "onnxruntime", **fields}), None, "")
    return msgspec.msgpack.decode(data, type=CellJob)


def _write(name: str, content: bytes = b"content") -> Path:
    path = Path(name).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_every_file_that_a_cell_names_is_in_its_job() -> None:
    for name in ("net.py", "x.npy", "all.npz", "data.npz", "metric.py", "mine.py", "ops/lib.so"):
        _write(name, name.encode())
    job = _job(
        model="net.py:build",
        inputs=("x=x.npy", "all.npz", "y=1x3"),
        data="data.npz",
        rewriters=("mine.py:mine", "package:mine"),
        metrics=("accuracy", "metric.py:Mine", "torchmetrics:Accuracy"),
        params={"custom_ops": ["./ops/lib.so", "a_package"], "device": "cpu", "threads": 2},
    )
    found = {text: Path(next(iter(files))).name for text, files in job.files.items()}
    assert found == {
        "net.py:build": "net.py",
        "x=x.npy": "x.npy",
        "all.npz": "all.npz",
        "data.npz": "data.npz",
        "mine.py:mine": "mine.py",
        "metric.py:Mine": "metric.py",
        "./ops/lib.so": "lib.so",
    }
    path = str(Path("net.py").absolute())
    assert job.files["net.py:build"] == {path: sha256(b"net.py").hexdigest()}


def test_names_of_modules_and_schemes_are_not_files() -> None:
    _write("accuracy")
    _write("cpu")
    job = _job(model="package.module:attr", metrics=("accuracy",), params={"device": "cpu"})
    assert job.files == {}


def test_a_file_that_changes_is_read_again() -> None:
    path = _write("net.py")
    first = _job(model="net.py:build").files["net.py:build"]
    path.write_bytes(b"another")
    os.utime(path, (1, 1))
    second = _job(model="net.py:build").files["net.py:build"]
    assert first == {str(path): sha256(b"content").hexdigest()}
    assert second == {str(path): sha256(b"another").hexdigest()}


def test_weights_beside_an_onnx_file_and_folders_are_named_too() -> None:
    initializer = numpy_helper.from_array(np.ones(4, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [4])],
        [helper.make_tensor_value_info("y", 1, [4])],
        [initializer],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]),
        "net.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    Path("folder").mkdir()
    files = _job(model="net.onnx", data="folder").files
    assert [Path(path).name for path in files["net.onnx"]] == ["net.onnx", "weights.bin"]
    assert files["folder"] == {str(Path("folder").absolute()): ""}


def test_the_job_has_the_command_of_its_artifact(tmp_path) -> None:
    job = _job(
        model="a b.py:build",
        precision="fp16",
        inputs=("x=1x3",),
        params={"threads": 2, "fast": False, "providers": ["a", "b"], "options": {"k": 1}},
        take=3,
        duration=1.0,
    )
    assert job.command == (
        f"cd {shlex.quote(str(tmp_path))} && "
        "enginebay deploy 'a b.py:build' --backend onnxruntime --input x=1x3 "
        "--precision fp16 --take 3 --threads 2 --no-fast --providers a,b --options k=1"
    )


def test_a_malformed_config_is_refused() -> None:
    _write("bad.toml", b"backend_config = 1 2")
    with pytest.raises(ConfigError, match=r"^bad\.toml"):
        _job(config="bad.toml")


def test_a_path_that_is_not_text_is_refused() -> None:
    name = os.fsdecode(b"mod\xe8le.onnx")
    Path(name).touch()
    with pytest.raises(UsageError, match="cannot be encoded in this locale"):
        _job(model=name)


def test_a_pipe_instead_of_a_file_is_refused(tmp_path) -> None:
    os.mkfifo("pipe.npz")
    with pytest.raises(UsageError) as caught:
        _job(data="pipe.npz")
    assert str(caught.value) == f"'{tmp_path}/pipe.npz' cannot be read: not a regular file"


def test_attempts_are_removed_at_the_end(tmp_path) -> None:
    output = tmp_path / "out"
    home = output / "artifacts" / ".attempts"
    (home / "of a sweep that was killed").mkdir(parents=True)
    with attempts_folder(output) as token:
        assert [path.name for path in home.iterdir()] == [token]
        (home / token / "late").mkdir()
    assert list((output / "artifacts").iterdir()) == []


def test_an_output_that_is_a_file_is_refused(tmp_path) -> None:
    output = _write("out")
    with pytest.raises(UsageError) as caught, attempts_folder(output):
        pytest.fail("nothing can be built")
    assert str(caught.value) == f"the output '{output}' cannot be written: Not a directory"
    assert caught.value.hint == "name a different folder: --output FOLDER"
