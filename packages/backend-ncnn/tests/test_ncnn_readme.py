"""The package's README lists every parameter."""

from __future__ import annotations

import re
from pathlib import Path

from enginebay_ncnn.params import NcnnParams

README = Path(__file__).parents[1] / "README.md"


def test_the_table_lists_every_parameter():
    rows = re.findall(r"^\| (`[^|]+) \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(NcnnParams.__struct_fields__)
