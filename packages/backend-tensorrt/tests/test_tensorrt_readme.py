"""The package's page lists the parameters that there are."""

from __future__ import annotations

import re
from pathlib import Path

from enginebay_tensorrt.params import TensorrtParams

README = Path(__file__).parents[1] / "README.md"


def test_the_table_lists_every_parameter() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(TensorrtParams.__struct_fields__)


def test_defaults_are_as_the_table_says() -> None:
    text = README.read_text(encoding="utf-8")
    for name, default in re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text, re.MULTILINE):
        assert str(getattr(TensorrtParams(), name)) == default
