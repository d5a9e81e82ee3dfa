"""The tutorial's class, on BackendParams, has the flags and results that the tutorial shows."""

from __future__ import annotations

import argparse
import contextlib
import os

import pytest

from enginebay.errors import ParamsError
from enginebay.params import BackendParams, FileName


class NewEngineParam(BackendParams):
    """Your first backend parameters.

    Args:
        work_dir (str): The working directory.
        file_name (str): File name of the serialized model. Postfix will be
             added automatically.
    """

    work_dir: str | None = None
    file_name: FileName = FileName("model", suffix=".model")

    def get_model_files(self) -> tuple[str, ...]:
        return (os.path.join(self.work_dir or "", self.file_name),)  # noqa: PTH118 - as shown


HELP = """\
usage: test_dataclass.py convert [-h] --onnx-path ONNX_PATH
                                 [--work-dir WORK_DIR] [--file-name FILE_NAME]

build TensorRTParam

options:
  -h, --help            show this help message and exit
  --onnx-path ONNX_PATH
                        ONNX model path.
  --work-dir WORK_DIR   The working directory.
  --file-name FILE_NAME
                        File name of the serialized model. Postfix will be
                        added automatically.
"""


@contextlib.contextmanager
def parse_args(parser, args, converted):
    parser.add_argument("--onnx-path", required=True, help="ONNX model path.")
    NewEngineParam.add_arguments(parser)
    parsed_args = parser.parse_args(args)
    yield parsed_args
    param = NewEngineParam(work_dir=parsed_args.work_dir, file_name=parsed_args.file_name)
    converted.append((parsed_args.onnx_path, param))


@pytest.fixture
def parser(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return argparse.ArgumentParser("test_dataclass.py convert", description="build TensorRTParam")


def test_help_matches_the_tutorial(parser, capsys):
    with pytest.raises(SystemExit) as stop, parse_args(parser, ["-h"], []):
        pass
    assert stop.value.code == 0
    assert capsys.readouterr().out == HELP


def test_the_console_tool_builds_the_params(parser):
    converted = []
    args = ["--onnx-path", "a.onnx", "--work-dir", "out", "--file-name", "net"]
    with parse_args(parser, args, converted) as parsed:
        assert parsed.work_dir == "out"
    assert converted == [("a.onnx", NewEngineParam(work_dir="out", file_name="net.model"))]
    assert converted[0][1].get_model_files() == (os.path.join("out", "net.model"),)  # noqa: PTH118


def test_flags_that_are_not_given_leave_the_defaults(parser):
    converted = []
    with parse_args(parser, ["--onnx-path", "a.onnx"], converted):
        pass
    assert converted == [("a.onnx", NewEngineParam())]
    assert converted[0][1].file_name == "model.model"
    assert converted[0][1].file_name.suffix == ".model"


def test_an_unknown_field_is_refused():
    with pytest.raises(ParamsError, match="'postfix', which is not one of its fields"):
        NewEngineParam(postfix=".model")
