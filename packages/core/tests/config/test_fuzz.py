"""Any content of a file results quickly in a config or a ConfigError, without other effects.

A part runs with the other tests; ``nox -s fuzz`` runs 35,000 cases a test.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from enginebay.config import read_config
from enginebay.errors import ConfigError

from .generators import JSON, NOISE, PYTHON, TOML, YAML, spoiled

CASES = int(os.environ.get("ENGINEBAY_FUZZ_CASES", "300"))
SECONDS = 5.0  # of a core, for one file; the largest take 0.2
MEGABYTES = 256  # more than before, after all files of one format
MEGABYTES += (CASES - 300) // 100  # hypothesis alone takes 8.6 kB for each further example of YAML
FORMATS = {".py": PYTHON, ".json": JSON, ".toml": TOML}
if find_spec("yaml"):
    FORMATS[".yaml"] = YAML
#: What Python reports before it does it. Reading a config opens files and makes a syntax tree.
_WATCHED = {"open", "exec", "compile", "import", "os.system", "subprocess.Popen"}

_seen: list[tuple[str, Any]] = []
_watching = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in _WATCHED:
        _seen.append((event, arguments[0]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz")
    (path / "b.toml").write_text("a = {a = 1, b = [1, 2]}")
    sys.addaudithook(_hook)
    for suffix in FORMATS:  # the reader's own imports and compilations come first
        (path / f"warm{suffix}").write_text("a = 1" if suffix in (".py", ".toml") else "{}")
        read_config(path / f"warm{suffix}")
    return path


def read_table(path: Path) -> Any:
    """Load a file, and record Python's audit events."""
    global _watching  # an audit hook can never be removed
    _seen.clear()
    _watching = True
    try:
        return read_config(path)
    except ConfigError as err:
        return err
    finally:
        _watching = False


def is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return type(value) is dict and all(is_plain(k) and is_plain(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return type(value) in (list, tuple) and all(map(is_plain, value))
    return type(value) in (str, int, float, bool, type(None))


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_config_or_the_one_error(folder: Path, suffix: str) -> None:
    file = folder / f"a{suffix}"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @given(FORMATS[suffix], NOISE)
    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def survives(text: str, noise: list[tuple[int, int, str]]) -> None:
        file.write_text(spoiled(text, noise), encoding="utf-8", newline="")
        started = time.process_time()
        found = read_table(file)
        assert time.process_time() - started < SECONDS
        if not isinstance(found, ConfigError):
            assert type(found) is dict
            assert is_plain(found)
        for event, argument in _seen:
            if event == "open":
                assert Path(argument).parent in (folder, folder.parent)
                assert Path(argument).suffix in (".py", ".json", ".toml", ".yaml")
            else:  # the text becomes a syntax tree, and nothing is run
                assert event == "compile", (event, argument)

    survives()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) / 1024 < MEGABYTES


@given(st.binary(max_size=200))
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes(folder: Path, content: bytes) -> None:
    for suffix in FORMATS:
        file = folder / f"c{suffix}"
        file.write_bytes(content)
        found = read_table(file)
        assert isinstance(found, ConfigError) or is_plain(found)
