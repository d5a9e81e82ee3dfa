"""Rows keep a hint as plain text: an encoder of JSON refuses other kinds of text."""

from __future__ import annotations

import msgspec

from enginebay.environment import Tier, failed
from enginebay.errors import Hint, UsageError, argument
from enginebay_lab.comparison.comparison import ComparisonRow

HINT = Hint("add {} to continue", argument("resume", True))


def test_a_row_of_an_error_whose_hint_has_options_is_encoded() -> None:
    row = ComparisonRow(backend="loopback", precision="fp32", verdict="failed")
    document = msgspec.json.encode(row.with_error(UsageError("no", hint=HINT)))
    assert msgspec.json.decode(document)["hint"] == "add --resume to continue"


def test_a_failed_check_whose_fix_has_options_is_encoded() -> None:
    report = failed(Tier.SMOKE, "build", found="no", fix=UsageError("no", hint=HINT).hint or "")
    assert b"add --resume to continue" in msgspec.json.encode(report.checks)
