"""The output of `config show` is an equal config."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, example, given, settings, strategies as st

from enginebay.authors.files import read_config
from enginebay_lab.configs.writing import as_python

if TYPE_CHECKING:
    from pathlib import Path

#: Not the key that a config reads as a request to replace its base's dict.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
    lambda text: text != "_delete_"
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(TEXT | st.integers() | st.none(), inner, max_size=4)
    ),
    max_leaves=20,
)
NAMES = st.from_regex(r"[a-z][a-z0-9]{0,6}_", fullmatch=True)


@example({"x": {"ª": 1, "class": 2}})
@given(st.dictionaries(NAMES, VALUES, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_written_configs_are_read_back_unchanged(tmp_path: Path, config: dict) -> None:
    (tmp_path / "a.py").write_bytes(as_python(config).encode())
    assert read_config(tmp_path / "a.py") == config


def test_numbers_without_a_literal(tmp_path: Path) -> None:
    config = {"x": [math.inf, -math.inf, math.nan]}
    (tmp_path / "a.py").write_text(as_python(config))
    high, low, none = read_config(tmp_path / "a.py")["x"]
    assert (high, low) == (math.inf, -math.inf)
    assert math.isnan(none)


def test_long_values_are_broken_into_lines() -> None:
    config = {"x": {"names": ["a" * 30, "b" * 30], "axes": {0: "batch"}, "shape": (1,), "n": {}}}
    assert as_python(config) == (
        "x = dict(\n"
        "    names=['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'],\n"
        "    axes={0: 'batch'},\n"
        "    shape=(1,),\n"
        "    n=dict(),\n"
        ")\n"
    )
