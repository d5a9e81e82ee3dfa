"""All problems of a config, with their places, the backend's and the codebase's among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packages.core.tests.config.test_sections import STRANGER

import enginebay as eb
from enginebay.authors.files import read_table
from enginebay.errors import BackendNotFoundError
from enginebay_lab.configs.check_config import check_config
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Write = Callable[[str, str], Path]


@pytest.fixture(scope="module", autouse=True)
def _stranger() -> Iterator[None]:
    with temporary_backend("stranger", STRANGER):
        yield


def test_a_name_that_the_file_uses_is_a_variable(write: Write) -> None:
    file = write(
        "a.py", "size = dict(w=3)\nsizes = dict(h=1)\nonnx_config = dict(opset_version=size)"
    )
    found = check_config(read_table(file))
    assert [str(problem).partition("; available")[0] for problem in found.problems] == [
        "a.py:2:1: 'sizes' is not a key of the config",
        "a.py:3:20: {'w': 3} does not fit onnx_config.opset_version: expected int, found dict",
    ]


def test_a_check_reports_all_errors_in_order_with_locations(write: Write) -> None:
    write("base.toml", "[backend_config]\ntype = 'stranger'\nlevle = 1\ncommon_config.size = 3")
    file = write(
        "a.py",
        "_base_='base.toml'\nbackend_config = dict(level='3')\nonnx_config = dict(optimize=False)",
    )
    found = check_config(read_table(file))
    assert [str(problem).partition(":")[0] for problem in found.problems] == ["a.py", "base.toml"]
    assert str(found.problems[1]).startswith(
        "base.toml: backend_config.levle: 'levle' is not a key of"
    )
    assert found.notes == (
        "onnx_config.optimize has no effect: engines optimise the graph when they load it",
        "backend_config.common_config.size has no effect: it needs no space",
    )
    assert (found.backend, found.ir) == ("stranger", "onnx")


def test_a_backend_that_is_not_installed_is_a_problem(write: Write) -> None:
    found = check_config(read_table(write("a.py", "backend_config = dict(type='tvm', anything=1)")))
    (problem,) = found.problems
    assert str(problem).startswith("a.py:1:23: no backend 'tvm' is installed")
    assert problem.hint
    unnamed = check_config(read_table(write("b.py", "backend_config = dict(anything=1)")))
    assert unnamed.notes == ("backend_config names no type: its keys are not checked",)
    with pytest.raises(BackendNotFoundError):
        eb.deploy("net.py:build", config=read_table("a.py"))


def test_a_codebase_that_is_not_installed_is_a_note() -> None:
    found = check_config({"codebase_config": {"type": "nowhere"}})
    assert found.problems == ()
    assert found.notes == (
        "no installed plugin has models of 'nowhere': name yours as file.py:attr",
    )


CHECKED = """
import enginebay as eb
from enginebay.authors.sources import read_options

@eb.hookimpl
def model_sources():
    return {"zoo": None}  # a check builds no model

@eb.hookimpl
def codebase_checks():
    return {"zoo": read_options}
"""


def test_a_plugin_checks_the_section_of_its_codebase(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("ext_x = 1\ncodebase_config = dict(type='zoo', pretraind=True)")
    with temporary_backend("zoo", CHECKED, group="enginebay.plugins"):
        (problem,) = check_config(read_table(file)).problems
        assert str(problem).startswith(f"{file}:2:1: codebase_config: unknown key 'pretraind'")
        assert problem.hint == "did you mean 'pretrained'?"
        assert check_config({"codebase_config": {"type": "zoo", "pretrained": True}}).problems == ()
    broken = CHECKED.replace("read_options}", "lambda request: {}['key']}")
    with temporary_backend("zoo", broken, group="enginebay.plugins"):
        (problem,) = check_config({"codebase_config": {"type": "zoo"}}).problems
        assert str(problem) == "codebase_checks() of 'zoo' raised KeyError: 'key'"
