"""Configs have the same values and types as in mmengine, except for `_delete_` (see below)."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its imports warn on a current Python
    mmengine = pytest.importorskip("mmengine", reason="mmengine is not installed")

from enginebay.authors.files import read_config

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent / "configs"


def theirs(path: Path) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: dict[str, Any] = mmengine.Config.fromfile(str(path)).to_dict()
    return found


def typed(value: Any) -> Any:
    """The value with its types, since 1 == 1.0 == True."""
    if isinstance(value, dict):
        return {(type(key), key): typed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [typed(item) for item in value]
    return type(value), value


def without_delete(value: Any) -> Any:
    """mmengine leaves `_delete_` where a base has nothing to delete; here it never remains."""
    if isinstance(value, dict):
        return {key: without_delete(item) for key, item in value.items() if key != "_delete_"}
    if isinstance(value, list | tuple):
        return type(value)(map(without_delete, value))
    return value


@pytest.mark.parametrize("name", [p.relative_to(HERE).as_posix() for p in HERE.rglob("*.*")])
def test_own_configs_equal_mmengines(name: str) -> None:
    path = HERE / name
    assert typed(read_config(path, environment=os.environ)) == typed(theirs(path))


KEYS = st.sampled_from(["a", "b", "c", 0, 1])
LEAVES = st.integers(-3, 3) | st.sampled_from(["x", None, True, 1.5, [1], (2,), [{"a": 1}]])
TABLES = st.recursive(
    LEAVES,
    lambda inner: st.dictionaries(KEYS | st.just("_delete_"), inner, max_size=4).map(
        lambda table: {k: bool(v) if k == "_delete_" else v for k, v in table.items()}
    ),
    max_leaves=10,
)
CONFIGS = st.dictionaries(st.sampled_from(["x", "y", "z"]), TABLES, max_size=3)


def source(config: dict[str, Any], base: str = "") -> str:
    head = f"_base_ = {base!r}\n" if base else ""
    return head + "".join(f"{name} = {value!r}\n" for name, value in config.items())


@given(CONFIGS, CONFIGS, CONFIGS)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_configs_merge_as_in_mmengine(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]
) -> None:
    (tmp_path / "a.py").write_text(source(first))
    (tmp_path / "b.py").write_text(source(second, "a.py"))
    (tmp_path / "c.py").write_text(source(third, "b.py"))
    try:
        wanted = theirs(tmp_path / "c.py")
    except TypeError:  # a dict over something else
        from enginebay.errors import ConfigError

        with pytest.raises(ConfigError, match="they cannot be merged"):
            read_config(tmp_path / "c.py")
    else:
        assert typed(read_config(tmp_path / "c.py")) == typed(without_delete(wanted))


def test_given_configs_equal_mmengines_in_a_tenth_of_the_time(
    pytestconfig: pytest.Config, capsys: Any
) -> None:
    folder = pytestconfig.getoption("--configs")
    if folder is None:
        pytest.skip("no folder was given: nox -s mmengine-configs -- --configs FOLDER")
    paths = sorted(Path(folder).rglob("*.py"))
    assert paths
    wanted, others = timed(theirs, paths)
    found, ours = timed(read_config, paths)
    assert [p for p, f, w in zip(paths, found, wanted, strict=True) if typed(f) != typed(w)] == []
    with capsys.disabled():
        print(f"\n{len(paths)} configs: {ours:.2f} CPU seconds here, {others:.2f} with mmengine")
    assert ours < others / 10


def timed(read: Callable[[Path], Any], paths: list[Path]) -> tuple[list[Any], float]:
    """Return the configs, and the CPU seconds of the fastest of three reads."""
    seconds = []
    for _ in range(3):
        started = time.process_time()
        found = [read(path) for path in paths]
        seconds.append(time.process_time() - started)
    return found, min(seconds)
