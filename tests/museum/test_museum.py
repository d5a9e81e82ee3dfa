"""A few of the exhibits; ``nox -s museum`` visits them all."""

from __future__ import annotations

import re

import pytest

from .trial import ABSENT, EXHIBITS, visit

#: One for each kind: an exporter's, an optimiser's and an engine's, of today and planted.
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
def test_a_mistake_of_another_project_is_refused_and_named(thread: str) -> None:
    exhibit, outcome = EXHIBITS[thread], visit(thread)
    assert outcome.keeps(exhibit)
    assert outcome.names(exhibit) == (exhibit.verdict == "mismatched")


def test_a_plant_that_changes_nothing_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = "microsoft/onnxruntime#6995"
    harmless = EXHIBITS[thread]._replace(mistake=lambda module, x: module(x))
    monkeypatch.setitem(EXHIBITS, thread, harmless)
    outcome = visit(thread)
    assert (outcome.verdict, outcome.plain) == ("verified", "verified")
    assert not outcome.keeps(harmless)


def test_forty_mistakes_of_five_projects_and_more() -> None:
    threads = [*EXHIBITS, *ABSENT]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+#\d+", thread) for thread in threads)
    assert len(EXHIBITS) >= 40
    assert len({thread.partition("#")[0] for thread in EXHIBITS}) >= 5
    assert not EXHIBITS.keys() & ABSENT.keys()
