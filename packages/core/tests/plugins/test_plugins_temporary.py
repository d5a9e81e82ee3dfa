"""A temporary backend works like an installed backend, and is removed completely."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from enginebay.errors import BackendNotFoundError, PluginError
from enginebay.plugins import (
    load_backend,
)
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Callable


def test_temporary_backend_is_removed_completely(good: Callable[..., str]) -> None:
    path, modules = list(sys.path), set(sys.modules)
    with temporary_backend("mine", good("mine")) as folder:
        load_backend("mine")
        assert any(name.startswith("temporary_mine") for name in sys.modules)
    assert sys.path == path
    assert not [name for name in set(sys.modules) - modules if name.startswith("temporary_")]
    assert not folder.exists()
    with pytest.raises(BackendNotFoundError):
        load_backend("mine")


def test_temporary_backend_is_removed_after_an_error(good: Callable[..., str]) -> None:
    path = list(sys.path)
    with suppress(ZeroDivisionError), temporary_backend("mine", good("mine")) as folder:
        sys.path.remove(str(folder))
        raise ZeroDivisionError
    assert sys.path == path
    assert not folder.exists()


def test_load_failure_is_forgotten_after_the_block(good: Callable[..., str]) -> None:
    with temporary_backend("mine", "raise ValueError"), pytest.raises(PluginError):
        load_backend("mine")
    with temporary_backend("mine", good("mine")):
        assert load_backend("mine").info.name == "mine"


def test_existing_module_stays_imported() -> None:
    import json.tool

    with temporary_backend("mine", "json.tool"), pytest.raises(PluginError, match="no hook"):
        load_backend("mine")
    assert sys.modules["json.tool"] is json.tool


def test_child_process_loads_the_temporary_backend(good: Callable[..., str]) -> None:
    script = (
        "import sys; sys.path[:] = eval(sys.argv[1])\nfrom enginebay.plugins import load_backend\n"
    )
    script += "print(load_backend('mine').info.name)"
    with temporary_backend("mine", good("mine")):
        child = subprocess.run(
            [sys.executable, "-c", script, repr(sys.path)],
            capture_output=True,
            text=True,
            check=True,
        )
    assert child.stdout == "mine\n"


@pytest.mark.parametrize("name", ["with-dash", "with space", "9lives", "ünïcode"])
def test_any_name_is_accepted(name: str, good: Callable[..., str]) -> None:
    with temporary_backend(name, good(name)):
        assert load_backend(name).info.name == name


def test_record_lists_every_file(good: Callable[..., str]) -> None:
    with temporary_backend("mine", good("mine"), distribution="a.b-c", version="1.0") as folder:
        record = (folder / "a_b_c-1.0.dist-info" / "RECORD").read_text().splitlines()
        files = {
            path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
        }
    assert {line.partition(",")[0] for line in record} == files
