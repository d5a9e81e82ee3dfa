"""Tasks: records in artifacts, and the plugins that read them."""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch

import enginebay as eb
from enginebay.environment import install_command
from enginebay.errors import MissingDependencyError, PluginError, UsageError
from enginebay.task_records import record_task
from enginebay.tasks import read_task
from enginebay_testing import temporary_backend
from enginebay_testing.command_runs import Ran, call_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NET = """\
import torch


def build():
    return torch.nn.Hardtanh(), torch.zeros(1, 2), {"type": "gauge", "unit": "bar"}


def cat():
    return torch.nn.Hardtanh(), torch.zeros(1, 2), {"type": "image-classification"}


def without():
    return torch.nn.Hardtanh(), torch.zeros(1, 2)


def odd():
    return torch.nn.Hardtanh(), torch.zeros(1, 2), {"type": "gauge", "unit": 3}
"""
#: A task without pictures: it reads numbers in text files.
GAUGE = """\
from pathlib import Path

import msgspec
import numpy as np

import enginebay as eb
from enginebay.errors import InputError, UsageError


class Value(msgspec.Struct, frozen=True):
    number: float
    unit: str


class Gauge(msgspec.Struct, frozen=True, tag_field="type", tag="gauge", kw_only=True):
    unit: str
    input: str = ""

    def fit(self, inputs, outputs):
        return msgspec.structs.replace(self, input=inputs[0].name)

    def preparation(self):
        return self.unit

    def preprocess(self, item):
        try:
            values = np.array([[float(word) for word in Path(item).read_text().split()]])
        except (OSError, ValueError) as err:
            raise InputError(f"'{item}' cannot be read: {err}") from err
        return {self.input: values.astype(np.float32)}

    def open_folder(self, path):
        return [(self.preprocess(file), 0) for file in sorted(path.glob("*.txt"))]

    def read_outputs(self, outputs, item):
        return [Value(float(value), self.unit) for value in outputs["output"][0]]

    def check_drawing(self, path):
        if path.suffix != ".svg":
            raise UsageError(f"'{path}' is no .svg file")

    def draw(self, item, found, path):
        path.write_text(" ".join(str(one.number) for one in found))


def read(record):
    try:
        return msgspec.convert(record, Gauge)
    except msgspec.ValidationError as err:
        raise UsageError(str(err), hint="write unit") from err


@eb.hookimpl
def tasks():
    return {"gauge": read}
"""
BROKEN = "import enginebay as eb\n@eb.hookimpl\ndef tasks(): return {}[0]\n"
PICTURE = {"type": "image-classification", "image": {}}
ABSENT = "the task is of the kind 'image-classification', which no installed plugin declares"
INSTALL = install_command("enginebay-vision")


@pytest.fixture
def gauge() -> Iterator[None]:
    """A plugin that declares a task."""
    with temporary_backend("gauge", GAUGE, group="enginebay.plugins"):
        yield


@pytest.fixture
def cli(
    tmp_path: Path,
    loopback: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., Ran]:
    """Runs a command line in a folder with ``net.py`` and readings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENGINEBAY_BACKENDS", loopback)
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "readings").mkdir()
    for number in range(3):
        (tmp_path / "readings" / f"{number}.txt").write_text(f"0.{number} 0.5")
    return partial(call_command, capfd)


def deploy(cli: Callable[..., Ran], model: str, *flags: str) -> Ran:
    line = ("deploy", f"net.py:{model}", "--work-dir", "out", "--probes", "0", "--overwrite")
    return cli(*line, "--exporter", "torchscript", *flags)


def record(tmp_path: Path) -> dict[str, Any] | None:
    found: dict[str, Any] | None = json.loads((tmp_path / "out/manifest.json").read_text()).get(
        "task"
    )
    return found


@pytest.mark.usefixtures("gauge")
def test_task_of_a_plugin_works_in_every_command(cli: Callable[..., Ran], tmp_path: Path) -> None:
    ran = deploy(cli, "build", "--data", "readings")
    assert ran.code == 0, ran.err
    assert record(tmp_path) == {"type": "gauge", "unit": "bar", "input": "input"}
    assert "data      readings, 3 items" in cli("inspect", "out").out
    assert "task      gauge\n" in cli("inspect", "out").out
    ran = cli("run", "out", "--image", "readings/2.txt", "--draw", "a.svg")
    assert ran.code == 0, ran.err
    assert [line.split() for line in ran.out.splitlines()[:3]] == [
        ["IMAGE", "NUMBER", "UNIT"],
        ["readings/2.txt", "0.2000", "bar"],
        ["readings/2.txt", "0.5000", "bar"],
    ]
    assert (tmp_path / "a.svg").read_text().startswith("0.2")
    with eb.load("out") as wrapper, eb.load("out", isolated=True) as isolated:
        for found in (wrapper.predict("readings/1.txt"), isolated.predict("readings/1.txt")):
            assert [(one.number, one.unit) for one in found] == [
                (pytest.approx(0.1), "bar"),
                (0.5, "bar"),
            ]
        with pytest.raises(eb.EnginebayError, match=r"^'readings/no.txt' cannot be read: "):
            wrapper.predict("readings/no.txt")
    assert (
        "'a.png' is no .svg file"
        in cli(*("run", "out", "--image", "readings/2.txt", "--draw", "a.png")).err
    )


@pytest.mark.usefixtures("gauge")
def test_an_object_and_its_record_are_equivalent(tmp_path: Path) -> None:
    task = read_task({"type": "gauge", "unit": "bar"})
    assert record_task(task) == {"type": "gauge", "unit": "bar", "input": ""}
    assert read_task(task) == task
    (tmp_path / "task.json").write_text('{"type": "gauge", "unit": 3}')
    with pytest.raises(UsageError) as caught:
        read_task(tmp_path / "task.json")
    assert str(caught.value) == f"'{tmp_path}/task.json': Expected `str`, got `int` - at `$.unit`"
    assert caught.value.hint == "write unit"


@pytest.mark.usefixtures("gauge")
def test_malformed_record_of_a_model_is_refused(cli: Callable[..., Ran], tmp_path: Path) -> None:
    ran = deploy(cli, "odd")
    assert (ran.code, ran.err.splitlines()[0]) == (
        2,
        "error: invalid task of 'net.py:odd': the task: Expected `str`, got `int` - at `$.unit`",
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (5, "the task is of type int; expected a mapping with the kind under 'type', or the path"),
        ({}, "the task has no 'type'; expected a mapping with the kind under 'type', or the path"),
        ({"type": 3}, "the task has 3 under 'type'; expected a mapping with the kind under"),
        (
            {"type": "gauge", "at": object()},
            "the task is of type dict, which is not plain data: Enco",
        ),
        ("none.json", "'none.json' cannot be read: No such file or directory"),
        ("net.py", "'net.py' is not a task in JSON: "),
        ("list.json", "'list.json' is not a task in JSON: expected a JSON object"),
    ],
)
def test_invalid_records_are_refused(
    cli: Callable[..., Ran], tmp_path: Path, task: Any, message: str
) -> None:
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(UsageError) as caught:
        record_task(task)
    assert str(caught.value).startswith(message)


@pytest.mark.usefixtures("without_vision")
def test_an_explicit_task_requires_its_plugin(cli: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text(json.dumps(PICTURE))
    ran = deploy(cli, "without", "--task", "task.json")
    assert (ran.code, ran.err.splitlines()) == (
        3,
        [
            "error: " + ABSENT.replace("the task", "'task.json'"),
            f"hint: {INSTALL}",
        ],
    )
    assert not (tmp_path / "out").exists()
    with pytest.raises(MissingDependencyError) as caught:
        read_task({"type": "poetry"})
    assert caught.value.hint == "install the plugin that declares this kind"
    with pytest.raises(UsageError) as misspelt:
        read_task({"type": "image-clasification"})
    assert misspelt.value.hint == "did you mean 'image-classification'?"


@pytest.mark.usefixtures("without_vision")
def test_the_task_of_a_model_source_is_stored_unread(
    cli: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = deploy(cli, "cat")
    assert ran.code == 0, ran.err
    assert f"{ABSENT}, so it is stored unread: {INSTALL}" in ran.out + ran.err
    assert record(tmp_path) == {"type": "image-classification"}
    assert cli("run", "out").code == 0
    ran = cli("inspect", "out")
    assert ran.code == 0
    assert f"task      image-classification; {ABSENT}; {INSTALL}\n" in ran.out
    ran = cli("run", "out", "--image", "a.png")
    assert (ran.code, ran.err.splitlines()) == (
        3,
        [f"error: {ABSENT}", f"hint: {INSTALL}"],
    )
    with eb.load("out") as wrapper, pytest.raises(MissingDependencyError) as caught:
        wrapper.predict("a.png")
    assert (str(caught.value), caught.value.hint) == (ABSENT, INSTALL)
    ran = deploy(cli, "cat", "--data", "readings")
    assert (ran.code, ran.err.splitlines()[-1]) == (3, f"hint: {INSTALL}")


def test_predict_without_a_task_is_refused(cli: Callable[..., Ran]) -> None:
    assert deploy(cli, "without").code == 0
    with eb.load("out") as wrapper, pytest.raises(UsageError, match="was made without a task"):
        wrapper.predict("a.png")


def test_folder_of_files_without_a_task_is_refused(cli: Callable[..., Ran]) -> None:
    ran = deploy(cli, "without", "--data", "readings")
    assert (ran.code, ran.err.splitlines()) == (
        2,
        [
            "error: 'readings' contains no .npz files; other files require a task",
            "hint: deploy the model with a task: --task FILE.json",
        ],
    )


def test_an_artifact_works_without_its_tasks_plugin(
    cli: Callable[..., Ran], tmp_path: Path
) -> None:
    with temporary_backend("gauge", GAUGE, group="enginebay.plugins"):
        assert deploy(cli, "build").code == 0
    assert cli("run", "out").code == 0
    assert "no installed plugin declares; install the plugin" in cli("inspect", "out").out
    with temporary_backend("gauge", BROKEN, group="enginebay.plugins"):
        assert cli("run", "out").code == 0
        assert "tasks() of 'gauge'" in cli("inspect", "out").out
        ran = cli("run", "out", "--image", "readings/0.txt")
        assert ran.code == 3
        assert "tasks() of 'gauge'" in ran.err
        with pytest.raises(PluginError):
            _ = eb.open_artifact(tmp_path / "out").task


@pytest.mark.parametrize(
    ("reading", "fault"),
    [
        ("1 / 0", "raised ZeroDivisionError: division by zero"),
        ("raise SystemExit(0)", "raised SystemExit(0)"),
        (
            "return None",
            "returned None: expected an object with the methods of an enginebay.hooks.Task",
        ),
    ],
)
def test_broken_reader_of_tasks_is_reported(reading: str, fault: str) -> None:
    source = GAUGE.replace("def read(record):", f"def read(record):\n    {reading}")
    with (
        temporary_backend("gauge", source, group="enginebay.plugins"),
        pytest.raises(PluginError) as caught,
    ):
        read_task({"type": "gauge", "unit": "bar"})
    assert str(caught.value) == f"the task reader of type 'gauge' {fault}"


def test_kind_from_two_plugins_is_refused() -> None:
    with ExitStack() as stack:
        for name in ("gauge", "meter"):
            stack.enter_context(temporary_backend(name, GAUGE, group="enginebay.plugins"))
        with pytest.raises(PluginError) as caught:
            read_task({"type": "gauge", "unit": "bar"})
    assert str(caught.value) == (
        "tasks() of 'gauge' (temporary-gauge 0) and of 'meter' (temporary-meter 0) both define "
        "'gauge'"
    )
    assert caught.value.hint == "pip uninstall temporary-gauge, or temporary-meter"


@pytest.mark.usefixtures("cli", "gauge")
def test_text_of_a_task_names_no_folder() -> None:
    """One of the characters that a text recogniser reads is the slash."""
    task = {"type": "gauge", "unit": "readings"}  # also a folder in the working directory
    model = torch.nn.Hardtanh(), torch.zeros(1, 2), task
    deployment = eb.deploy(model, backend="loopback", work_dir="out")
    recipe = deployment.artifact.manifest.recipe
    assert recipe is not None
    assert not [file for file in recipe.files if "readings" in file]
