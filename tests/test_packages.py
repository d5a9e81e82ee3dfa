"""What every package says of itself: one range of core, one set of systems, one repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parent.parent
TEMPLATE = ROOT / "packages/core/src/enginebay/cli/template/pyproject.toml.in"
PACKAGES = [
    *sorted(ROOT.glob("packages/*/pyproject.toml")),
    *sorted(ROOT.glob("examples/*/pyproject.toml")),
    TEMPLATE,
]
#: Bounds releases only: the contract is the API version, which is compared when a plugin is loaded.
RANGE = ">=0.1,<1"
REPOSITORY = "https://github.com/enginebay/enginebay"


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[-2]


def project(path: Path) -> dict[str, Any]:
    return dict(tomllib.loads(path.read_text(encoding="utf-8"))["project"])


@pytest.mark.parametrize(
    "path", [path for path in PACKAGES if name_of(path) != "core"], ids=name_of
)
def test_a_package_accepts_a_range_of_core(path: Path) -> None:
    wanted = [Requirement(line) for line in project(path)["dependencies"]]
    (core,) = [requirement for requirement in wanted if requirement.name == "enginebay"]
    assert core.specifier == Requirement(f"enginebay{RANGE}").specifier


@pytest.mark.parametrize("path", PACKAGES, ids=name_of)
def test_a_package_says_where_it_runs(path: Path) -> None:
    table = project(path)
    assert table["requires-python"] == ">=3.11"
    classifiers = table["classifiers"]
    assert any(line.startswith("Operating System :: POSIX") for line in classifiers)
    pythons = [line for line in classifiers if line.startswith("Programming Language :: Python ::")]
    assert pythons == [
        f"Programming Language :: Python :: {version}" for version in ("3", "3.11", "3.12", "3.13")
    ]


@pytest.mark.parametrize("path", [path for path in PACKAGES if path != TEMPLATE], ids=name_of)
def test_a_package_says_where_it_comes_from(path: Path) -> None:
    folder = path.relative_to(ROOT).parent.as_posix()
    assert project(path)["urls"] == {
        "Homepage": REPOSITORY,
        "Documentation": f"{REPOSITORY}/tree/main/docs",
        "Source": f"{REPOSITORY}/tree/main/{folder}",
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
        "Issues": f"{REPOSITORY}/issues",
    }


def test_the_default_run_has_the_oldest_torch_of_the_metadata() -> None:
    export = project(ROOT / "packages/core/pyproject.toml")["optional-dependencies"]["export"]
    (floor,) = [Requirement(line) for line in export if Requirement(line).name == "torch"]
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    (pin,) = re.findall(r"^torch==(\S+)", constraints, re.MULTILINE)
    assert floor.specifier == SpecifierSet(f">={pin}")
