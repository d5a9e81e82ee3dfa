"""The rows of ``lab.pieces``, and what they say together."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

import enginebay_lab as lab


def row(module: str = "a", **given: Any) -> lab.PieceRow:
    return lab.PieceRow(**{"module": module, "verdict": "verified", **given})


WRONG = row(
    "body.act",
    call=1,
    type="GELU",
    operators=("Erf", "Mul"),
    verdict="mismatched",
    max_abs_error=0.125,
    rtol=1e-4,
    atol=1e-5,
    sample="redrawn",
    is_redrawn=True,
)
CRASHED = row("head", type="Tanh", verdict="crashed", reason="ended with SIGSEGV")
FAILED = row("", type="Net", verdict="failed", reason="no such operator")


@pytest.mark.parametrize(
    ("rows", "summary", "passed"),
    [
        ((row(), row()), "2 of 2 pieces agree alone", True),
        ((WRONG, row()), "1 of 2 pieces agree alone; 1 wrong", False),
        (
            (CRASHED, WRONG, WRONG, row()),
            "1 of 4 pieces agree alone; 2 wrong, 1 with a crash of the engine",
            False,
        ),
        ((FAILED, row()), "1 of 2 pieces agree alone; 1 not compared", True),
        ((FAILED,), "0 of 1 pieces agree alone; 1 not compared", False),
        ((CRASHED,), "0 of 1 pieces agree alone; 1 with a crash of the engine", False),
        ((), "0 of 0 pieces agree alone", False),  # nothing was compared
    ],
)
def test_pieces_pass_if_some_agree_and_none_differs(
    rows: tuple[lab.PieceRow, ...], summary: str, passed: bool
) -> None:
    found = lab.Pieces(backend="loopback", rows=rows)
    assert (found.summary, found.passed) == (summary, passed)
    assert repr(found) == f"<Pieces on loopback: {summary}>"
    assert found.unverified == tuple(row for row in rows if row.verdict != "verified")


def test_only_pieces_that_are_not_verified_are_printed() -> None:
    found = lab.Pieces(
        backend="loopback", precision="fp32", engines=3, rows=(CRASHED, WRONG, FAILED, row("good"))
    )
    lines = str(found).splitlines()
    assert lines[:3] == [found.summary, "precision  fp32", "engines    3 built"]
    assert lines[3].split() == ["MODULE", "OPERATORS", "ERROR", "RTOL", "ATOL"]
    assert [line.split() for line in lines[4:]] == [
        ["head", "Tanh", "-", "-", "-", "ended", "with", "SIGSEGV"],
        [
            "body.act",
            "(call",
            "2)",
            "Erf,Mul",
            "0.12",
            "0.0001",
            "1e-05",
            "on",
            "redrawn",
            "values",
        ],
        ["(the", "model)", "Net", "-", "-", "-", "no", "such", "operator"],
    ]
    right = lab.Pieces(backend="loopback", rows=(row(),))
    assert "MODULE" not in str(right)


def test_pieces_are_a_document_that_can_be_read_back() -> None:
    found = lab.Pieces(backend="loopback", rows=(WRONG, FAILED))
    document = json.loads(json.dumps(found.to_dict()))
    assert (document.pop("schema"), document["kind"]) == (1, "pieces")
    assert document["rows"][0]["operators"] == ["Erf", "Mul"]
    assert msgspec.convert(document, lab.Pieces) == found


def test_titles_name_the_call() -> None:
    assert [each.title for each in (WRONG, CRASHED, FAILED)] == [
        *("body.act (call 2)", "head", "(the model)")
    ]
