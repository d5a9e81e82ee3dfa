"""The recorded results and their page are consistent; nothing is exported."""

from __future__ import annotations

from .models import CASES, DECODERS
from .page import PAGE, load, render, verdict
from .trial import ENGINES

#: Those whose files are wrong or fail at an open size, or lack an encoder or a mask.
WRONG = ("swin", "segformer", "ast", "t5", "bart", "whisper", "llava", "llama, unpadded")


def test_page_in_the_docs_matches_the_results() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(load()), "transformers_exports --record"


def test_results_are_of_models_of_the_list() -> None:
    recorded = load()
    assert {*recorded.rows} <= {*CASES}
    assert {*recorded.tokens} <= {*DECODERS}


def test_no_silent_error_of_an_export_is_verified() -> None:
    for name, row in load().rows.items():
        found = {verdict(row, engine) for engine in ENGINES}
        if name in WRONG:
            assert "verified" not in found, name
        else:
            assert found == {"verified"}, name


def test_no_tokens_of_a_decoder_are_wrong() -> None:
    found = [each for engines in load().tokens.values() for each in engines.values()]
    assert all(each.equal and not each.wrong for each in found)
