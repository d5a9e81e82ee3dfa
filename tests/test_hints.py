"""Hints that name a package of Enginebay name one that can be installed."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import enginebay.installation as installation
from enginebay.errors import UsageError, next_command
from tests.command_lines import parse_line

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


def test_each_package_that_needs_another_is_known() -> None:
    """A package names one of those that it needs, and this one names the next."""
    known = installation.read_known()["needs"]
    found = {}
    for file in ROOT.glob("packages/*/pyproject.toml"):
        project = tomllib.loads(file.read_text("utf-8"))["project"]
        names = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}  # type: ignore[index]  # each begins with a name
        if others := {name for name in names if name.startswith("enginebay-")}:
            found[project["name"]] = others
    assert {*known} == {*found}
    for name, others in found.items():
        chain = [known[name]]
        while chain[-1] in known:
            chain.append(known[chain[-1]])
        assert {*chain} == others, name


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


def hints(path: Path) -> Iterator[str]:
    """Return the texts that a module passes as hints and fixes; a value in them is a name."""

    def is_hint(name: str | None) -> bool:
        return name is not None and ("hint" in name.lower() or name == "fix")

    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        value: ast.AST | None = None
        if isinstance(node, ast.keyword) and is_hint(node.arg):
            value = node.value
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and is_hint(target.id) for target in targets):
                value = node.value
        parts: set[ast.AST] = set()
        for part in ast.walk(value) if value else ():
            if isinstance(part, ast.JoinedStr):
                parts |= {*ast.walk(part)}
                yield "".join(
                    str(piece.value) if isinstance(piece, ast.Constant) else "onnxruntime"
                    for piece in part.values
                )
            elif isinstance(part, ast.Constant) and part not in parts:
                yield str(part.value)


def test_a_command_in_a_hint_can_be_typed_as_it_is() -> None:
    found = {}
    for path in SOURCES:
        for text in hints(path):
            words = next_command(text)
            if words[:1] == ["enginebay"] and words[-1] != "-h":
                found[f"{path.relative_to(ROOT)}: {text}"] = words
    assert len(found) > 8
    wrong = []
    for where, (_, *words) in found.items():
        try:
            parse_line(words)
        except UsageError as err:
            wrong.append(f"{where}: {err}")
    assert not wrong, "\n".join(wrong)
