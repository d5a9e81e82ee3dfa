"""The page of conformance tests matches the code."""

from __future__ import annotations

from pathlib import Path

from enginebay_testing.conformance.suite import laws

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "conformance-tests.md"


def test_the_page_lists_every_law() -> None:
    found = [(law.family, law.sentence.replace("``", "`"), law.name) for law in laws()]
    rows = [f"| {family} | {sentence} | `{name}` |" for family, sentence, name in found]
    table = PAGE.read_text(encoding="utf-8").partition("|---|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == rows
