"""The models of real size, and their part of the zoo's page."""

from __future__ import annotations

from collections import Counter

from tests.full_size.models import MODELS, SIZES, build
from tests.full_size.page import COLUMNS, section
from tests.zoo.results import Cell, Results


def test_collection_has_ten_models_of_each_size() -> None:
    assert Counter(animal.family for animal in MODELS.values()) == dict.fromkeys(SIZES, 10)
    model, inputs = build("levit-128")
    assert inputs["pixel_values"].shape == (1, 3, 224, 224)
    assert not model.training


def test_page_shows_reference_seconds_and_memory() -> None:
    costs = ((3.0, 0.5), (4.6, 0.75), (None, None))
    cells = [
        Cell(model="minilm", column=column, state=state, seconds=9, reference=took, memory=memory)
        for column, state, (took, memory) in zip(
            COLUMNS, ("verified", "verified", "unsupported"), costs, strict=True
        )
    ]
    page = section(Results(date="2026-01-02", versions={"torch": "2"}, cells=cells))
    for line in (
        "1 of 50 published architectures",
        "Measured on 2026-01-02 with torch 2, on",
        "| openvino | 1 | 0 | 1 |",
        "| minilm | 512 tokens · 5 s · 0.8 GiB | ✓ 9 s | ✓ 9 s | **unsupported** 9 s |",
        "### Neither verified nor built, and why",
    ):
        assert line in page
