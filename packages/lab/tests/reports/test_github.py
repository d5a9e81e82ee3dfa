"""A report for a job of GitHub: the summary in Markdown, and the annotations."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest

import enginebay_lab as lab
from enginebay.errors import UsageError
from enginebay_lab.reports.github import format_annotations, format_summary
from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from pathlib import Path

NET = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x


def build():
    return Net(), torch.ones(1, 3)
"""


def write_error(path: Path, message: str, *words: str, **more: Any) -> None:
    command = shlex.join(["enginebay", *words])
    error = {"type": "ExportError", "message": message, "hint": "do so"}
    path.write_text(json.dumps({"schema": 1, "error": error, "command": command, **more}))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    return tmp_path


def annotations(*names: str) -> list[str]:
    return [*format_annotations(lab.report(*names))]


def test_a_deployment_that_failed_is_a_row_with_its_reason(
    folder: Path, loopback: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("deploy", "models/net.py:build", "--backend", loopback, "--json")
    ran = call_command(capfd, *words, "--exporter", "torchscript")
    assert ran.code == 1
    (folder / "ran.json").write_text(ran.out)
    found = lab.report("ran.json")
    (failure,) = found.failures
    assert failure.verdict == "mismatched"
    assert failure.model == "models/net.py:build"
    assert lab.report("ran.json", "ran.json").failures == (failure,)
    summary = format_summary(found)
    assert summary.startswith(
        "## models/net.py:build\n\n- 0 of 1 verified against the PyTorch model, unpatched.\n\n"
    )
    assert "| loopback | ≠ mismatched |" in summary
    (line,) = annotations("ran.json")
    start = "::error file=models/net.py,line=6,title=loopback%3A mismatched::mismatched against"
    assert line.startswith(start)
    assert "%0Ahint: select with torch.where or torch.cond at models/net.py:6" in line
    found.save("one.json")
    assert lab.report("one.json").failures == (failure,)
    assert lab.report("one.json", "ran.json").failures == (failure,)


@pytest.mark.parametrize(
    ("message", "words", "where"),
    [
        ("at 100 %, net.py:7", "models/net.py:build", "file=models/net.py,line=7"),
        ('File "net.py", line 8', "models/net.py:build", "file=models/net.py,line=8"),
        ("at torch/nn/modules.py:3", "models/net.py:build", "file=models/net.py,line=11"),
        ("refused", "models/net.py:Nothing", "file=models/net.py,line=1"),
        ("refused", "models/net.onnx --backend=ncnn", "file=models/net.onnx,line=1"),
        ("refused", "gone.onnx --backend ncnn", ""),
        ("refused", "timm:resnet18", ""),
        ("refused", "", ""),
    ],
)
def test_an_annotation_is_where_the_reason_is_or_the_function_is(
    folder: Path, message: str, words: str, where: str
) -> None:
    (folder / "models" / "net.onnx").touch()
    write_error(folder / "ncnn.json", message, "deploy", *(words.split() or ["--traceback"]))
    text = message.replace("%", "%25")
    place = f"{where}," if where else ""
    assert annotations("ncnn.json") == [
        f"::error {place}title=ncnn%3A failed::{text}%0Ahint: do so",
    ]


def test_a_syntax_error_is_annotated_at_its_line(folder: Path) -> None:
    write_error(folder / "ncnn.json", "refused", "deploy", "models/net.py:build")
    for text, line in (("x = 1\ndef build(:\n", 2), ("x = 1\n\0", 1)):
        (folder / "models" / "net.py").write_text(text)
        (found,) = annotations("ncnn.json")
        assert found.startswith(f"::error file=models/net.py,line={line},")


@pytest.mark.parametrize("document", ['{"error": {"message": 3}}', '{"error": {}}'])
def test_a_damaged_error_is_refused(folder: Path, document: str) -> None:
    (folder / "a.json").write_text(document)
    with pytest.raises(UsageError, match=r"^'a\.json' is damaged: "):
        lab.report("a.json")


def test_a_damaged_command_is_refused(folder: Path) -> None:
    text = '{"error": {"message": "no"}, "command": "enginebay deploy \'net"}'
    (folder / "a.json").write_text(text)
    with pytest.raises(UsageError, match=r"^'a\.json' is damaged: No closing quotation"):
        lab.report("a.json")


def test_a_file_counts_from_the_checkout(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_error(folder / "models" / "a.json", "at net.py:7", "deploy", "net.py:build")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder))
    monkeypatch.chdir(folder / "models")
    (line,) = annotations("a.json")
    assert line.startswith("::error file=models/net.py,line=7,")


def test_a_file_in_an_environment_is_not_annotated(folder: Path) -> None:
    (folder / ".venv").mkdir()
    (folder / "models" / "net.py").rename(folder / ".venv" / "net.py")
    write_error(folder / "a.json", "at net.py:7", "deploy", "net.py:build")
    assert annotations("a.json") == ["::error title=a%3A failed::at net.py:7%0Ahint: do so"]


def test_the_summary_shows_texts_as_they_are(folder: Path) -> None:
    write_error(folder / "a|<b>.json", "*no*\n</details>", "deploy", "models/net.py:build")
    assert format_summary(lab.report("a|<b>.json")).splitlines()[4:] == [
        "| Backend | Verdict |",
        "| --- | --- |",
        r"| a\|\<b\> | ✗ failed |",
        "",
        r"**✗ a\|\<b\>: failed**",
        "",
        "    *no*",
        "    </details>",
        "    hint: do so",
    ]


def test_the_command_adds_to_the_summary_of_the_job(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_error(folder / "ncnn.json", "refused", "deploy", "models/net.py:build")
    ran = call_command(capfd, "report", "ncnn.json", "--github")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("## models/net.py:build\n")
    assert not (folder / "report.html").exists()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    for _ in range(2):
        ran = call_command(capfd, "report", "ncnn.json", "--github", "--output", "one.json")
        assert ran.out.startswith("report  one.json")
        assert ran.err.startswith("::error file=models/net.py,line=11,")
    assert (folder / "summary.md").read_text().count("## models/net.py:build\n") == 2


@pytest.mark.parametrize("words", [("verify", "all"), ("deploy",), ()])
def test_an_error_of_another_command_is_refused(folder: Path, words: tuple[str, ...]) -> None:
    write_error(folder / "a.json", "no", *words)
    with pytest.raises(UsageError, match=r"'a\.json' contains only the error of a command: no"):
        lab.report("a.json")
