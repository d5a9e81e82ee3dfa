"""``enginebay config``, on the loopback backend."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packages.core.tests.cli.conftest import Run

    Write = Callable[[str, str], Path]

CONFIG = """
_base_ = './base.json'
onnx_config = dict(
    type='onnx', input_shape=[12, 10], input_names=['input'], output_names=['means'],
    save_file='end2end.onnx', dynamic_axes={'input': {0: 'batch', 2: 'height'}, 'means': {0: 'b'}})
"""
BASE = '{"backend_config": {"type": "loopback"}}'


@pytest.fixture
def run(write: Write, loopback: str, capfd: pytest.CaptureFixture[str]) -> Run:
    write("mine.py", CONFIG)
    write("base.json", BASE)
    return partial(call_command, capfd)


def test_show_prints_the_whole_config_in_a_form_that_reads_back(run: Run, write: Write) -> None:
    code, out, err = run("config", "show", "mine.py")
    assert (code, err) == (0, "")
    assert out.startswith("backend_config = dict(type='loopback')\nonnx_config = dict(\n")
    write("again.py", out)
    assert run("config", "show", "again.py")[1] == out
    document = json.loads(run("config", "show", "mine.py", "--json")[1])
    assert document["schema"] == 1
    assert document["config"]["onnx_config"]["dynamic_axes"]["input"] == {
        "0": "batch",
        "2": "height",
    }


def test_check_says_ok_or_everything_that_is_wrong(run: Run, write: Write) -> None:
    assert run("config", "check", "mine.py") == (
        0,
        "ok: mine.py is valid for loopback, exported to onnx\n",
        "",
    )
    write(
        "bad.py",
        "_base_='mine.py'\nbackend_config = dict(gian=1)\nonnx_config = dict(verbose=True)",
    )
    code, out, err = run("config", "check", "bad.py")
    assert code == 1
    assert out == (
        "bad.py:2:23: 'gian' is not a key of backend_config; available: device, file_name, "
        "gain, input_shapes, max_shapes, min_shapes, model_inputs, type (did you mean 'gain'?)\n"
    )
    assert err == "note: onnx_config.verbose has no effect: the command line has --traceback\n"
    document = json.loads(run("config", "check", "bad.py", "--json")[1])
    assert document["problems"][0]["hint"] == "did you mean 'gain'?"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "none.py"), "error: the config 'none.py' does not exist\n"),
        (("show",), "error: 'config show' requires a FILE\nhint: enginebay config -h\n"),
        (
            ("schema", "mine.py"),
            "error: 'config schema' takes no FILE\nhint: enginebay config -h\n",
        ),
        (("shwo", "mine.py"), "error: argument show|check|schema: invalid choice: 'shwo'"),
    ],
)
def test_wrong_arguments_of_config(run: Run, words: tuple[str, ...], message: str) -> None:
    code, out, err = run("config", *words)
    assert (code, out) == (2, "")
    assert err.startswith(message)


def test_environment_variables_are_asked_for_only_with_the_flag(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAIN", "3")
    write("env.py", "backend_config = dict(type='loopback', gain={{'$GAIN:1'}})")
    code, _, err = run("config", "show", "env.py")
    assert code == 2
    assert err == (
        "error: env.py:1:45: {{'$GAIN:1'}} reads the environment variable 'GAIN', which is not "
        "allowed here\n"
        "hint: to allow the file to read your environment variables, pass --allow-env\n"
    )
    assert "gain=3)" in run("config", "show", "env.py", "--allow-env")[1]


def test_schema_is_for_the_installed_backends(run: Run) -> None:
    code, out, _ = run("config", "schema")
    assert code == 0
    names = [b.get("title") for b in json.loads(out)["properties"]["backend_config"]["anyOf"]]
    assert "loopback" in names
