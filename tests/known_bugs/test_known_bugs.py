"""A few of the bugs; ``nox -s known-bugs`` deploys them all."""

from __future__ import annotations

import re

import pytest

from .trial import ABSENT, BUGS, deploy_bug

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
    bug, outcome = BUGS[thread], deploy_bug(thread)
    assert outcome.keeps(bug)
    assert outcome.names(bug) == (bug.verdict == "mismatched")


def test_planted_bug_without_an_effect_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = "microsoft/onnxruntime#6995"
    harmless = BUGS[thread]._replace(mistake=lambda module, x: module(x))
    monkeypatch.setitem(BUGS, thread, harmless)
    outcome = deploy_bug(thread)
    assert (outcome.verdict, outcome.plain) == ("verified", "verified")
    assert not outcome.keeps(harmless)


def test_at_least_forty_bugs_are_of_at_least_five_projects() -> None:
    threads = [*BUGS, *ABSENT]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+#\d+", thread) for thread in threads)
    assert len(BUGS) >= 40
    assert len({thread.partition("#")[0] for thread in BUGS}) >= 5
    assert not BUGS.keys() & ABSENT.keys()
