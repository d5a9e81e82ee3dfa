"""No page tells the same thing twice, and no line is left over from an edit."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import pytest

from .test_docs import PAGES, ROOT, name_of, prose_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Pages that programs write, and the list of changes, which repeats what pages explain.
WRITTEN_ELSEWHERE = {*ROOT.glob("docs/evidence/*.md"), ROOT / "CHANGELOG.md"}
#: Words in a row that are compared, and the share of them that makes two paragraphs near-equal.
WORDS_IN_A_ROW = 4
NEAR = 0.5
#: Shorter paragraphs, such as "With the `net.py` of the README:", introduce a block.
SHORTEST = 12
#: Names that begin a sentence with a small letter.
NAMES = {"ncnn", "onnx", "pip", "pnnx", "pytest", "timm", "torch", "torchvision"}


class Paragraph(NamedTuple):
    page: str
    start: str
    pieces: frozenset[tuple[str, ...]]


def paragraphs_of(page: str, text: str) -> list[Paragraph]:
    """Return the paragraphs and items of lists; rows of tables repeat words on purpose."""
    found = []
    for part in re.split(r"\n\s*\n|\n(?=- )|\n(?=\d\. )|\n(?=\|)", text):
        words = re.findall(r"\w+", part.lower())
        if len(words) >= SHORTEST and not part.lstrip().startswith("|"):
            ends = range(WORDS_IN_A_ROW, len(words) + 1)
            pieces = frozenset(tuple(words[end - WORDS_IN_A_ROW : end]) for end in ends)
            found.append(Paragraph(page, part.strip()[:60], pieces))
    return found


def near_equal(paragraphs: Sequence[Paragraph]) -> list[str]:
    """Return the pairs that share at least half of all their rows of words."""
    holders = defaultdict(list)
    for number, paragraph in enumerate(paragraphs):
        for piece in paragraph.pieces:
            holders[piece].append(number)
    shared = Counter(pair for numbers in holders.values() for pair in combinations(numbers, 2))
    pairs = []
    for (one, other), count in shared.items():
        first, second = paragraphs[one], paragraphs[other]
        # The page of a package stands alone on an index, where the others are not.
        alone = first.page != second.page and {first.page[:9], second.page[:9]} == {"packages/"}
        if not alone and count >= NEAR * len(first.pieces | second.pieces):
            pairs.append(f"{first.page} and {second.page}: {first.start}")
    return pairs


def test_no_paragraph_is_there_twice() -> None:
    pages = [page for page in PAGES if page not in WRITTEN_ELSEWHERE]
    found = [each for page in pages for each in paragraphs_of(name_of(page), prose_of(page))]
    assert len(found) > 500
    assert near_equal(found) == []


def test_a_paragraph_that_was_reworded_and_left_in_place_is_found() -> None:
    text = (
        "The first run has no baseline and creates one. A cell fails only if it is worse now.\n\n"
        "The first run has no baseline and makes one. A cell fails only if it is worse now.\n\n"
        "A sweep is most useful when it runs on every change, compared with the last good one.\n"
    )
    assert near_equal(paragraphs_of("ci.md", text)) == [
        "ci.md and ci.md: The first run has no baseline and creates one. A cell fails "
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_line_is_left_over_from_an_edit(page: Path) -> None:
    """A line that begins with a small letter after a full stop belongs to another sentence."""
    for first, word in re.findall(r"^(.*\.)\n([a-z]\w*)\b", prose_of(page), re.MULTILINE):
        assert word in NAMES, f"{first}\n{word} …"
