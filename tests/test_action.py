"""The action for GitHub: its steps in bash run as GitHub would run them, on real engines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fork_server import write_command

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
pytest.importorskip("jinja2", reason="the action writes a page, which Jinja2 makes")
ENGINES = ("onnxruntime", "openvino")
for engine in ENGINES:
    pytest.importorskip(engine, reason=f"{engine} is not installed")

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
PAGE = ROOT / "docs" / "how-to" / "ci.md"
NET = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x.sum(1) * 2


def build():
    return Net(), torch.ones(2, 3)
"""
BRANCH = "        if x.sum() > 0:\n            return x.sum(1)\n"


class Ran(NamedTuple):
    """What the action left behind.

    Attributes:
        failed: True if a step failed.
        log: What the steps printed.
        summary: The summary of the job, in Markdown.
        outputs: The outputs of each step, by its id.
    """

    failed: bool
    log: str
    summary: str
    outputs: dict[str, dict[str, str]]


def run_action(folder: Path, **inputs: str) -> Ran:
    """Run the steps in bash in a folder; those that use other actions are left out."""
    values = {f"inputs.{name}": each.get("default", "") for name, each in ACTION["inputs"].items()}
    values |= {f"inputs.{name}": text for name, text in inputs.items()}
    runner = folder.parent / "runner"
    shutil.rmtree(runner, ignore_errors=True)
    runner.mkdir()
    write_command(runner)
    (runner / "pip").write_text('#!/bin/sh\npwd\nfor each; do echo "pip $each"; done\n')
    (runner / "pip").chmod(0o755)
    path = os.pathsep.join([str(runner), os.environ["PATH"]])
    ran = Ran(False, "", "", {})
    for step in ACTION["runs"]["steps"]:
        if "run" not in step or not values.get(step.get("if", ""), "always"):
            continue
        assert step["shell"] == "bash"
        output = runner / "output"
        output.write_text("")
        own = {name: fill(text, values) for name, text in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env={
                **os.environ,
                **own,
                "PATH": path,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "RUNNER_OS": "Linux",
                "GITHUB_ACTION_PATH": str(ROOT),
                "GITHUB_WORKSPACE": str(folder),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(runner / "summary.md"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        made = dict(line.split("=", 1) for line in output.read_text().splitlines())
        values |= {f"steps.{step.get('id')}.outputs.{name}": each for name, each in made.items()}
        ran = ran._replace(log=ran.log + done.stdout, outputs={**ran.outputs, step.get("id"): made})
        if done.returncode:
            ran = ran._replace(failed=True)
            break
    summary = runner / "summary.md"
    return ran._replace(summary=summary.read_text() if summary.exists() else "")


def fill(text: str, values: dict[str, str]) -> str:
    """Replace the expressions in a text by their values."""
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda match: values[match[1]], text)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "net.py").write_text(NET)
    return folder


def test_the_action_deploys_reports_and_does_nothing_again(checkout: Path) -> None:
    inputs = {"model": "net.py:build", "backends": " ".join(ENGINES), "flags": "--probes 2"}
    first = run_action(checkout, **inputs)
    assert not first.failed, first.log
    assert "## net.py:build\n\n- 2 of 2 verified" in first.summary
    assert "| openvino fp32 | ✓ verified |" in first.summary
    assert (checkout / "artifacts" / "report.html").is_file()
    assert "::error" not in first.log
    again = run_action(checkout, **inputs)
    results = [(checkout / "artifacts" / f"{name}.json").read_text() for name in ENGINES]
    assert all("up to date" in result for result in results)
    assert again.outputs == first.outputs  # so that nothing is saved again
    assert again.outputs["deploy"]["key"].startswith(again.outputs["key"]["key"] + "-")


def test_a_mismatch_fails_the_action_and_annotates_its_line(checkout: Path) -> None:
    inputs = {"model": "net.py:build", "backends": " ".join(ENGINES), "flags": "--probes 2"}
    assert not run_action(checkout, **inputs).failed
    place = "    def forward(self, x):\n"
    (checkout / "net.py").write_text(NET.replace(place, place + BRANCH))
    ran = run_action(checkout, **inputs)
    assert ran.failed
    found = re.findall(r"^::error file=net\.py,line=6,title=(\w+)%3A mismatched::", ran.log, re.M)
    assert found == [*ENGINES]  # the second engine is tried after the first failed
    assert "- 0 of 2 verified" in ran.summary
    assert not (checkout / "artifacts" / "onnxruntime").exists()  # the old one is of another model


def test_the_page_and_the_action_agree() -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    steps = [
        step for block in blocks for step in yaml.safe_load(block)["jobs"].popitem()[1]["steps"]
    ]
    (given,) = [step["with"] for step in steps if step.get("uses", "").startswith("enginebay/")]
    required = {name for name, each in ACTION["inputs"].items() if each.get("required")}
    assert required <= {*given} <= {*ACTION["inputs"]}
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)[: len(ACTION["inputs"])] == [
        *ACTION["inputs"]
    ]


def test_the_action_installs_folders_of_its_own_checkout(checkout: Path) -> None:
    install = "./core[export] ./backend-openvino"
    ran = run_action(checkout, model="nothing", backends="openvino", install=install)
    folder, *words = ran.log.splitlines()[:4]
    assert Path(folder) == ROOT / "packages"
    assert words == ["pip install", "pip ./core[export]", "pip ./backend-openvino"]
    assert ran.failed
    assert "::error title=openvino%3A failed::" in ran.log
