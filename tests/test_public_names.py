"""Backends, model sources, examples and the kit use only the public names of Enginebay.

The tests parse the files and do not import them, so that no engine has to be installed.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enginebay import authors

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = {
    name: set(import_module(name).__all__)
    for name in (
        "enginebay",
        "enginebay.hooks",
        "enginebay.errors",
        "enginebay.environment",
        "enginebay.authors",
        *(f"enginebay.authors.{door}" for door in authors.DOORS),
        "enginebay.commands",
    )
}
CORE = ROOT / "packages" / "core"
SOURCES = sorted(
    {
        *ROOT.glob("packages/*/src/**/*.py"),
        *ROOT.glob("examples/**/*.py"),
        *CORE.glob("src/**/template/src/**/*.py.in"),  # written by new-backend
    }
    - set(CORE.glob("src/enginebay/**/*.py"))
)


def private_names(source: str) -> Iterator[str]:
    """Yield the private names of Enginebay that a module uses, each with its line."""
    tree = ast.parse(source)
    aliases: dict[str, str] = {}  # the names of public modules in this module
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and is_ours(node.module or ""):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in PUBLIC:
                    aliases[alias.asname or alias.name] = whole
                elif alias.name not in PUBLIC.get(node.module, ()):
                    yield f"{node.lineno}: {whole}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "enginebay":
                    aliases[alias.asname or alias.name] = alias.name
                elif is_ours(alias.name) and alias.name not in PUBLIC:
                    yield f"{node.lineno}: {alias.name}"
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in aliases
            and node.attr not in PUBLIC[aliases[node.value.id]]
        ):
            yield f"{node.lineno}: {aliases[node.value.id]}.{node.attr}"


def is_ours(module: str) -> bool:
    """True for core's modules; the other packages have different import names."""
    return module.partition(".")[0] == "enginebay"


def test_every_package_is_read() -> None:
    folders = {path.relative_to(ROOT).parts[1] for path in SOURCES}
    packages = {path.name for path in ROOT.glob("packages/*") if path.is_dir()}
    assert packages <= folders
    assert "build-cache" in folders


@pytest.mark.parametrize(
    "path",
    SOURCES,
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_plugins_use_public_names(path: Path) -> None:
    assert list(private_names(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "from enginebay.ir import read_onnx",
        "from enginebay.environment import MINIMUM",
        "from enginebay import plugins",
        "import enginebay.ir",
        "import enginebay as eb\neb.plugins",
        "from enginebay.authors import read_onnx",
        "from enginebay.authors import isolation\nisolation.programs",
    ],
)
def test_private_names_are_found(source: str) -> None:
    assert len(list(private_names(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from enginebay.authors.files import read_onnx",
        "from enginebay.authors import isolation\nisolation.call",
        "from enginebay import hooks",
        "import enginebay.errors",
        "import enginebay as eb\neb.deploy",
        "from enginebay_ncnn.plan import Plan",
    ],
)
def test_public_names_pass(source: str) -> None:
    assert list(private_names(source)) == []
