"""The tables that sessions write into a page of the docs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from benchmarks.page import EVIDENCE, describe_peers

from tests.figures import PAGE, table, write_figures

if TYPE_CHECKING:
    from pathlib import Path


def test_table_replaces_only_its_previous_version(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- one -->\nold\n<!-- end of one -->\nb\n<!-- two -->\n")
    for count in (3, 4):
        write_figures("one", table(["kind", "wrong"], [["masks", count]]), page)
    text = page.read_text()
    assert text.startswith("a\n<!-- one -->\n\nFigures of 2")
    assert text.endswith(
        ":\n\n| kind | wrong |\n| --- | --: |\n| masks | 4 |\n\n"
        "<!-- end of one -->\nb\n<!-- two -->\n"
    )
    assert "old" not in text


def test_page_without_the_comments_is_refused_and_unchanged(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- two -->\n")
    with pytest.raises(ValueError, match=r"page\.md has no place for the table of 'two'"):
        write_figures("two", "| x |", page)
    assert page.read_text() == "a\n<!-- two -->\n"


@pytest.mark.parametrize("session", ["verdicts", "operator-values", "known-bugs"])
def test_docs_page_has_the_comments_of_each_session(session: str, tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(PAGE.read_text())
    write_figures(session, "| x |", copy)
    assert "| x |" in copy.read_text()


def test_benchmarks_say_in_words_what_their_table_says() -> None:
    text = (EVIDENCE / "benchmarks.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if "| peers |" in line]
    lines = list(
        describe_peers((what, against, float(ratio)) for _, what, against, *_, ratio, _, _ in rows)
    )
    assert lines == re.findall(r"^- .*", text, re.MULTILINE)
