"""The package's page lists the parameters that there are."""

from __future__ import annotations

import re
from pathlib import Path

from enginebay_tensorrt.params import TensorrtParams, TensorrtRtxParams

README = Path(__file__).parents[1] / "README.md"
ROW = re.compile(r"^\| (`[^|]+) \|([^|]*)\|([^|]*)\|", re.MULTILINE)


def table() -> dict[str, tuple[str, str]]:
    """The default and the backend in the row of each parameter."""
    _, _, section = README.read_text(encoding="utf-8").partition("\n## Parameters\n")
    rows = ROW.findall(section.partition("\n## ")[0])
    return {
        name: (default.strip("` "), backend.strip())
        for names, default, backend in rows
        for name in re.findall(r"`(\w+)`", names)
    }


def test_the_table_lists_every_parameter() -> None:
    here, rtx = ({*kind.__struct_fields__} for kind in (TensorrtParams, TensorrtRtxParams))
    backends = {name: backend for name, (_, backend) in table().items()}
    assert backends == {
        **dict.fromkeys(here & rtx, "both"),
        **dict.fromkeys(here - rtx, "`tensorrt`"),
        **dict.fromkeys(rtx - here, "`tensorrt-rtx`"),
    }


def test_the_table_has_the_defaults() -> None:
    for name, (default, _) in table().items():
        if default and default != "no":
            kind = TensorrtParams if hasattr(TensorrtParams(), name) else TensorrtRtxParams
            assert str(getattr(kind(), name)) == default
