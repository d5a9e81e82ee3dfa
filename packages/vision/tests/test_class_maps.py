"""Maps of classes may differ in a few pixels, and a wrong map fails."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import enginebay as eb
from enginebay.errors import UsageError
from enginebay.hooks import ComparatorRequest, ComparisonRequest
from enginebay_vision.plugin import comparators

CLASSES = np.random.default_rng(0).integers(0, 19, (2, 1, 50, 100))


def compare(found, expected=CLASSES, share=""):
    comparator = comparators()["class-map"](ComparatorRequest(argument=share))
    outputs = {"expected": {"out": expected}, "found": {"out": found}}
    return comparator(ComparisonRequest(allowed=lambda *_: 0.0, **outputs))


def wrong_at(count):
    found = CLASSES.copy()
    found.reshape(-1)[:count] += 1
    return found


def test_one_pixel_in_a_thousand_may_differ():
    result = compare(wrong_at(10))
    assert (result.passed, result.matched, result.excused) == (True, 9990, 10)
    assert result.worst == "at [0, 0, 0, 0]: expected class 16, found 17"
    result = compare(wrong_at(11))
    assert (result.passed, result.matched, result.expected_alone) == (False, 9989, 11)
    assert result.reason == "11 of 10000 pixels have another class"


def test_the_share_of_pixels_can_be_chosen():
    assert compare(wrong_at(100), share="0.01").passed
    assert not compare(wrong_at(1), share="0").passed
    assert compare(CLASSES, share="0").passed


def test_a_map_of_another_size_fails():
    result = compare(CLASSES[:, :, 1:])
    assert not result.passed
    assert result.reason == (
        "the shape of 'out' differs: expected (2, 1, 50, 100), found (2, 1, 49, 100)"
    )


@pytest.mark.parametrize("share", ["-0.1", "1", "nan", "half"])
def test_an_invalid_share_is_refused(share):
    with pytest.raises(UsageError, match=rf"invalid share in 'class-map:{share}'; expected"):
        compare(CLASSES, share=share)


def test_scores_are_refused():
    with pytest.raises(UsageError, match="as integers; found 'out' float64") as caught:
        compare(CLASSES * 1.0, CLASSES * 1.0)
    assert caught.value.hint == "compare each such output separately: --compare out=class-map"


class Nearest(torch.nn.Module):
    """A segmenter of many classes: at the borders between classes, rounding decides."""

    def __init__(self):
        super().__init__()
        self.scores = torch.nn.Conv2d(3, 16, 3, padding=1)

    def forward(self, image):
        return self.scores(image).argmax(1, keepdim=True)


@pytest.mark.usefixtures("loopback")
def test_a_deployment_compares_maps(tmp_path):
    torch.manual_seed(0)
    deployment = eb.deploy(
        (Nearest().eval(), torch.randn(1, 3, 64, 64)),
        backend="loopback",
        work_dir=tmp_path / "out",
        verify=eb.VerifyOptions(compare={"output": "class-map"}),
    )
    assert deployment.verdict == "verified"
    (matching,) = deployment.verification.matchings
    assert (matching.comparator, matching.outputs) == ("class-map", ("output",))
