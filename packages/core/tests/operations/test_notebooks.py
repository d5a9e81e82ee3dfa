"""Results in a notebook: short texts, and HTML that no name in a model can break."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch

import enginebay as eb
from enginebay.display import html_fields, html_table
from enginebay.verdict import Verification

if TYPE_CHECKING:
    from pathlib import Path


class Page(HTMLParser):
    """Collect the texts of an HTML fragment, and raise if its tags are not balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.styles: set[str] = set()
        self.tags: set[str] = set()
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.append(tag)
        self.tags.add(tag)
        self.styles |= {value or "" for name, value in attrs if name == "style"}

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def deployment(loopback: str, tmp_path_factory: pytest.TempPathFactory) -> eb.Deployment:
    folder = tmp_path_factory.mktemp("notebooks") / "relu"
    return eb.deploy(torch.nn.ReLU(), torch.ones(1, 3), backend=loopback, work_dir=folder)


def test_reprs_show_backend_verdict_and_path(deployment: eb.Deployment) -> None:
    path = deployment.artifact.path
    assert repr(deployment) == f"<Deployment on loopback, verified, in '{path}'>"
    assert repr(deployment.artifact) == f"<Artifact of loopback, verified, in '{path}'>"
    assert repr(deployment.verification) == (
        "<Verification verified against the PyTorch model, unpatched on 6 samples>"
    )
    assert (
        repr(Verification.unverified("nobody knows")) == "<Verification unverified: nobody knows>"
    )
    with eb.load(deployment.artifact) as wrapper:
        assert repr(wrapper) == "<LoopbackWrapper input → output>"
    assert repr(wrapper) == "<LoopbackWrapper input → output, closed>"


def test_the_html_has_the_figures_and_no_colours(deployment: eb.Deployment) -> None:
    with eb.load(deployment.artifact) as wrapper:
        results = (deployment, deployment.verification, deployment.artifact, wrapper)
        pages = [Page(result._repr_html_()) for result in results]
    whole, verdict, artifact, running = (" | ".join(page.texts) for page in pages)
    assert "verified against the PyTorch model, unpatched on 6 samples" in verdict
    assert "max error | rtol | atol | result | output | float32 | 1x3" in verdict
    assert "input float32[1, 3]" in artifact
    assert "cpu, fp32" in running
    assert "export" in whole
    assert whole.endswith(verdict[verdict.index("output | dtype") :])  # the same row for the output
    for page in pages:
        assert not [style for style in page.styles if "#" in style or "rgb" in style]
        assert {part for style in page.styles for part in style.split("; ") if "color" in part} <= {
            "color: inherit"
        }


def test_progress_without_a_terminal_prints_a_line_per_step(
    loopback: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, x = torch.nn.ReLU(), torch.ones(1, 3)
    eb.deploy(model, x, backend=loopback, work_dir=tmp_path / "relu", watch=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = [line.split()[:2] for line in shown.err.splitlines()]
    names = ("reference", "export", "convert", "verify", "publish")
    assert lines == [["✓", name] for name in names]


def test_progress_in_a_notebook_updates_a_single_table(
    loopback: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in replaces IPython; a real kernel shows the same table."""
    shown: list[str] = []

    class Handle:
        def update(self, html: str) -> None:
            shown.append(html)

    python, display = ModuleType("IPython"), ModuleType("IPython.display")
    python.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]  # a stand-in
    display.HTML = str  # type: ignore[attr-defined]  # likewise
    display.display = lambda *_, **__: Handle()  # type: ignore[attr-defined]  # likewise
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    model, x = torch.nn.ReLU(), torch.ones(1, 3)
    eb.deploy(model, x, backend=loopback, work_dir=tmp_path / "relu", watch=True)
    assert Page(shown[0]).texts == ["step", "seconds", "…", "reference"]
    last = Page(shown[-1]).texts
    assert [text for text in last if text in ("✓", "✗", "…")] == ["✓"] * 5


def test_a_name_cannot_become_markup() -> None:
    evil = "<script>alert('x')</script>"
    page = Page(html_fields(evil, [(evil, evil)]) + html_table((evil,), [(evil,)], right=(evil,)))
    assert "script" not in page.tags
    assert page.texts == [evil] * 5


def test_empty_html_tables_are_left_out() -> None:
    assert html_fields("", []) == html_table(("a",), []) == ""
    page = Page(Verification.crashed("signal 11")._repr_html_())
    assert page.texts == ["crashed: signal 11"]


def test_a_deployment_prints_as_the_table_of_the_command(
    deployment: eb.Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(deployment.artifact.path.parent)
    lines = str(deployment).splitlines()
    assert lines[0].split() == ["STEP", "SECONDS"]
    assert lines[8] == "verdict   verified against the PyTorch model, unpatched on 6 samples"
    assert lines[-4].startswith("artifact  relu (2 files, ")
    assert lines[-2].split() == [
        "OUTPUT",
        "DTYPE",
        "SHAPE",
        "MAX",
        "ERROR",
        "RTOL",
        "ATOL",
        "RESULT",
    ]
    assert str(deployment.verification).splitlines()[-2:] == lines[-2:]
    assert not {line for line in lines if "\x1b" in line}


def test_control_characters_in_texts_are_escaped() -> None:
    assert str(Verification.crashed("\x1b[2J\ngone")) == r"crashed: \x1b[2J\ngone"
