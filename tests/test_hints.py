"""Hints that name a package of Enginebay name one that can be installed."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import enginebay.installation as installation

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SOURCES = [*ROOT.glob("packages/*/src/**/*.py")]
#: Another machine's own origin is unknown here.
ELSEWHERE = ROOT / "packages/lab/src/enginebay_lab/executors/task_worker.py"


def texts(path: Path) -> Iterator[str]:
    """Return the constant texts of a module that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


def test_only_one_place_makes_the_command_that_installs_our_packages() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {text}"
        for path in SOURCES
        for text in texts(path)
        if re.search(r"pip install[^&]*\benginebay", text) and path != ELSEWHERE
    }
    assert not found, "use enginebay.environment.install_command"


def test_each_package_of_the_repository_has_its_folder() -> None:
    own = {}
    for project in ROOT.glob("packages/*/pyproject.toml"):
        own[tomllib.loads(project.read_text("utf-8"))["project"]["name"]] = project.parent.name
    assert installation.read_known()["folders"] == own


def test_extras_that_a_module_names_exist() -> None:
    named = {
        found.groups()
        for path in SOURCES
        for text in texts(path)
        if (found := re.fullmatch(r"(enginebay[\w-]*)\[([\w,-]+)\]", text))
    }
    assert named
    for name, extras in named:
        folder = ROOT / "packages" / installation.read_known()["folders"][name]
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), name
