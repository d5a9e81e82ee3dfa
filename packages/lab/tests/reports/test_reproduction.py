"""The commands of a page, and its title: a reader can copy and run them."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

import enginebay_lab as lab
from enginebay.authors.artifacts import Manifest
from enginebay_lab.measurement.benchmark import Benchmark
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.reports.facts import report_title
from enginebay_lab.reports.findings import ReportedArtifact
from enginebay_lab.reports.reproduction import list_commands
from enginebay_testing.command_runs import environment

if TYPE_CHECKING:
    from typing import Any

MACHINE = Machine(processor="p", cores=4, system="s", python="3", enginebay="0")


def artifact(name: str, command: str = "", **fields: Any) -> ReportedArtifact:
    plain = {
        "format": 1,
        "backend": "b",
        "plugin": {"distribution": "p", "version": "1"},
        "engine_version": "1",
        "model_files": [],
        "command": command,
        **fields,
    }
    return ReportedArtifact(path=f"/work/{name}", manifest=msgspec.convert(plain, Manifest))


def report(*artifacts: ReportedArtifact, command: str = "") -> lab.Report:
    return lab.Report(created="2026-01-31T12:00:00Z", artifacts=artifacts, command=command)


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"model": "/home/user/net.py:build"}, "net.py:build"),
        ({"model": "/home/user/net.py:build?weights=/home/user/w.pt"}, "net.py:build"),
        ({"model": "timm:resnet18"}, "timm:resnet18"),
        (
            {"recipe": {"options": {"model": ["ResNet", "1", "2"]}, "versions": {}, "files": {}}},
            "ResNet",
        ),
        ({}, "one"),
    ],
)
def test_the_title_is_the_name_of_the_model(fields: dict[str, Any], title: str) -> None:
    assert report_title(report(artifact("one", **fields))) == title
    assert f"<h1>{title}</h1>" in report(artifact("one", **fields)).to_html()


def test_a_script_is_shown_once_as_the_command_that_runs_it() -> None:
    line = (
        "cd /work && python build.py --epochs 3  # eb.deploy(net, x, work_dir={!r}) in b.py, line 3"
    )
    made = report(
        *(artifact(name, line.format(name)) for name in ("one", "two")),
        command="cd /work && enginebay report one two",
    )
    assert list_commands(made) == [
        ("Deploy one; Deploy two", "cd /work && python build.py --epochs 3"),
        ("Make this report", "cd /work && enginebay report one two"),
    ]


def test_a_call_in_a_notebook_is_shown_as_it_is_there() -> None:
    made = report(artifact("one", "eb.deploy(net, x, backend='b') in <cell 3>, line 1"))
    assert list_commands(made) == [
        ("Deploy one, in <cell 3>, line 1", "eb.deploy(net, x, backend='b')")
    ]


def test_a_command_writes_the_file_from_which_its_result_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    row = BenchmarkRow(name="one", backend="b", batch=1, threads=1, failure="it crashed")
    command = f"cd {tmp_path} && enginebay benchmark one --json"
    measured = Benchmark(rows=(row,), machine=MACHINE, command=command)
    Path("my speed.json").write_bytes(msgspec.json.encode(measured))
    ((_, shown),) = list_commands(lab.report("my speed.json"))
    assert shown == f"{command} > 'my speed.json'"
    monkeypatch.chdir("/")
    elsewhere = tmp_path / "more"
    elsewhere.mkdir()
    (elsewhere / "speed.json").write_bytes(msgspec.json.encode(measured))
    ((_, shown),) = list_commands(lab.report(elsewhere / "speed.json"))
    assert shown == f"{command} > {elsewhere}/speed.json"


SCRIPT = """
import torch
import enginebay as eb
import enginebay_lab as lab

net, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
made = eb.deploy(net, x, backend="loopback", work_dir="one", overwrite=True)
lab.report(made).save("report.html")
"""


@pytest.mark.process
@pytest.mark.usefixtures("loopback")
def test_the_command_of_a_page_runs_in_an_empty_folder(tmp_path: Path) -> None:
    home, empty = tmp_path / "home", tmp_path / "empty"
    home.mkdir()
    empty.mkdir()
    (home / "build.py").write_text(SCRIPT)
    script = [sys.executable, "build.py"]
    subprocess.run(script, cwd=home, env=environment(), check=True, capture_output=True)
    page = (home / "report.html").read_text(encoding="utf-8")
    assert "<h1>Linear</h1>" in page
    (code,) = re.findall("<code>(.*)</code>", page)
    (home / "report.html").unlink()
    command = html.unescape(re.sub("<[^>]*>", "", code))
    subprocess.run(
        command, shell=True, cwd=empty, env=environment(), check=True, capture_output=True
    )
    assert (home / "report.html").read_text(encoding="utf-8").count("<h1>Linear</h1>") == 1
    assert list(empty.iterdir()) == []
