"""The job of a cell: which files it names, which travel, and where they are found again."""

from __future__ import annotations

import os
import shlex
from hashlib import sha256
from pathlib import Path

import pytest

from enginebay.errors import ConfigError, UsageError
from enginebay_lab.sweeps.cell_job import CellJob, decode_job
from enginebay_lab.sweeps.cells import Cell
from enginebay_lab.sweeps.sending import attempts, job_of
from enginebay_lab.sweeps.sent_files import SMALL, locate


@pytest.fixture(autouse=True)
def _in_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def _job(**fields: object) -> CellJob:
    return decode_job(
        job_of(Cell(**{"model": "a:b", "backend": "onnxruntime", **fields}), None, "")
    )


def _write(name: str, content: bytes = b"content") -> Path:
    path = Path(name).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_every_file_that_a_cell_names_is_in_its_job() -> None:
    for name in ("net.py", "x.npy", "all.npz", "data.npz", "metric.py", "ops/lib.so"):
        _write(name, name.encode())
    job = _job(
        model="net.py:build",
        inputs=("x=x.npy", "all.npz", "y=1x3"),
        data="data.npz",
        metrics=("accuracy", "metric.py:Mine", "torchmetrics:Accuracy"),
        params={"custom_ops": ["./ops/lib.so", "a_package"], "device": "cpu", "threads": 2},
    )
    found = {text: Path(each.files[0].path).name for text, each in job.references.items()}
    assert found == {
        "net.py:build": "net.py",
        "x=x.npy": "x.npy",
        "all.npz": "all.npz",
        "data.npz": "data.npz",
        "metric.py:Mine": "metric.py",
        "./ops/lib.so": "lib.so",
    }
    (file,) = job.references["net.py:build"].files
    assert (file.sha256, file.size) == (sha256(b"net.py").hexdigest(), 6)
    assert file.content == b"net.py"


def test_names_that_are_no_files_stay_as_they_are() -> None:
    _write("accuracy")
    _write("cpu")
    job = _job(model="package.module:attr", metrics=("accuracy",), params={"device": "cpu"})
    assert job.references == {}


def test_large_files_and_folders_do_not_travel() -> None:
    _write("small.onnx")
    _write("large.npz", bytes(SMALL - 3))
    Path("folder").mkdir()
    job = _job(model="small.onnx", inputs=("x=large.npz",), data="folder")
    content = {text: each.files[0].content for text, each in job.references.items()}
    assert content == {"small.onnx": b"content", "x=large.npz": None, "folder": None}
    assert len(job_of(job.cell, None, "")) < 1000


def test_a_file_is_found_by_the_name_that_the_user_wrote(tmp_path, monkeypatch) -> None:
    net = _write("net.py")
    reference = _job(model="net.py:build").references["net.py:build"]
    assert locate(reference, tmp_path / "received") == ("net.py:build", "")
    monkeypatch.chdir("/")
    assert locate(reference, tmp_path / "received") == (f"{net}:build", "")
    net.unlink()
    text, note = locate(reference, tmp_path / "received")
    assert text == f"{tmp_path}/received/net.py:build"
    assert (tmp_path / "received/net.py").read_bytes() == b"content"
    assert note.startswith(f"'{net}' is not on ")


def test_a_file_that_changes_is_read_again() -> None:
    path = _write("net.py")
    first = _job(model="net.py:build").references["net.py:build"].files[0]
    path.write_bytes(b"another")
    os.utime(path, (1, 1))
    second = _job(model="net.py:build").references["net.py:build"].files[0]
    assert (first.sha256, second.sha256) == (
        sha256(b"content").hexdigest(),
        sha256(b"another").hexdigest(),
    )


def test_the_job_has_the_command_of_its_artifact(tmp_path) -> None:
    job = _job(
        model="a b.py:build",
        precision="fp16",
        inputs=("x=1x3",),
        params={"threads": 2, "fast": False, "providers": ["a", "b"], "options": {"k": 1}},
        take=3,
        seconds=1.0,
    )
    assert job.command == (
        f"cd {shlex.quote(str(tmp_path))} && "
        "enginebay deploy 'a b.py:build' --backend onnxruntime --input x=1x3 "
        "--precision fp16 --take 3 --threads 2 --no-fast --providers a,b --options k=1"
    )


def test_a_config_that_cannot_be_read() -> None:
    _write("bad.toml", b"backend_config = 1 2")
    with pytest.raises(ConfigError, match=r"^bad\.toml"):
        _job(config="bad.toml")


def test_a_path_that_is_no_text() -> None:
    name = os.fsdecode(b"mod\xe8le.onnx")
    Path(name).touch()
    with pytest.raises(UsageError, match="is not text in this locale"):
        _job(model=name)


def test_a_file_that_cannot_be_read(tmp_path) -> None:
    os.mkfifo("pipe.npz")
    with pytest.raises(UsageError) as caught:
        _job(data="pipe.npz")
    assert str(caught.value) == f"'{tmp_path}/pipe.npz' cannot be read: it is not a regular file"


def test_attempts_are_removed_at_the_end(tmp_path) -> None:
    output = tmp_path / "out"
    home = output / "artifacts" / ".attempts"
    (home / "of a sweep that was killed").mkdir(parents=True)
    with attempts(output) as token:
        assert [path.name for path in home.iterdir()] == [token]
        (home / token / "late").mkdir()
    assert list((output / "artifacts").iterdir()) == []


def test_an_output_that_is_a_file(tmp_path) -> None:
    output = _write("out")
    with pytest.raises(UsageError) as caught, attempts(output):
        pytest.fail("nothing can be built")
    assert str(caught.value) == f"the output '{output}' cannot be written: Not a directory"
    assert caught.value.hint == "name another folder: --output FOLDER"
