"""Results as a notebook shows them: short texts, and HTML that nothing in a model can break."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
import torch

import enginebay as eb
from enginebay.notebook import fields, table
from enginebay.verdict import Verification


class Page(HTMLParser):
    """The texts of a fragment; raises where its tags are not balanced."""

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


def test_the_short_texts_say_what_matters(deployment: eb.Deployment) -> None:
    path = deployment.artifact.path
    assert repr(deployment) == f"<Deployment on loopback, verified, in '{path}'>"
    assert repr(deployment.artifact) == f"<Artifact of loopback, verified, in '{path}'>"
    assert repr(deployment.verification) == (
        "<Verification verified against the PyTorch model, unpatched on 5 samples>"
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
    assert "verified against the PyTorch model, unpatched on 5 samples" in verdict
    assert "max error | rtol | atol | result | output | float32 | 1x3" in verdict
    assert "input float32[1, 3]" in artifact
    assert "cpu, fp32" in running
    assert "export" in whole
    assert verdict in whole
    assert artifact in whole
    for page in pages:
        assert not [style for style in page.styles if "#" in style or "rgb" in style]
        assert {part for style in page.styles for part in style.split("; ") if "color" in part} <= {
            "color: inherit"
        }


def test_a_name_cannot_become_markup() -> None:
    evil = "<script>alert('x')</script>"
    page = Page(fields(evil, [(evil, evil)]) + table((evil,), [(evil,)], right=(evil,)))
    assert "script" not in page.tags
    assert page.texts == [evil] * 5


def test_nothing_to_show_is_nothing() -> None:
    assert fields("", []) == table(("a",), []) == ""
    page = Page(Verification.crashed("signal 11")._repr_html_())
    assert page.texts == ["crashed: signal 11"]
