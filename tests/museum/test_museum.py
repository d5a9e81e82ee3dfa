"""A few of the exhibits; ``nox -s museum`` deploys them all."""

from __future__ import annotations

import re

import pytest

from .trial import ABSENT, EXHIBITS, visit

#: Bugs of exporters, optimisers and engines, some still present and some planted.
SLICE = (
    "pytorch/pytorch#111159",
    "microsoft/onnxruntime#12498",
    "openvinotoolkit/openvino#35651",
    "snakers4/silero-vad#783",
    "microsoft/onnxruntime#14208",
    "Tencent/ncnn#5679",
)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("thread", SLICE)
def test_bug_of_another_project_is_refused_and_its_module_named(thread: str) -> None:
    exhibit, outcome = EXHIBITS[thread], visit(thread)
    assert outcome.keeps(exhibit)
    assert outcome.names(exhibit) == (exhibit.verdict == "mismatched")


def test_exhibit_without_an_effect_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = "microsoft/onnxruntime#6995"
    harmless = EXHIBITS[thread]._replace(mistake=lambda module, x: module(x))
    monkeypatch.setitem(EXHIBITS, thread, harmless)
    outcome = visit(thread)
    assert (outcome.verdict, outcome.plain) == ("verified", "verified")
    assert not outcome.keeps(harmless)


def test_museum_has_forty_exhibits_of_five_projects() -> None:
    threads = [*EXHIBITS, *ABSENT]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+#\d+", thread) for thread in threads)
    assert len(EXHIBITS) >= 40
    assert len({thread.partition("#")[0] for thread in EXHIBITS}) >= 5
    assert not EXHIBITS.keys() & ABSENT.keys()
