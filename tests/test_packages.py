"""The metadata of all packages: the same range of core, systems and repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import enginebay as eb

ROOT = Path(__file__).parent.parent
TEMPLATE = ROOT / "packages/core/src/enginebay_testing/template/pyproject.toml.in"
PACKAGES = [
    *sorted(ROOT.glob("packages/*/pyproject.toml")),
    *sorted(ROOT.glob("examples/*/pyproject.toml")),
    TEMPLATE,
]
#: Only bounds releases: the contract is the API version, which is checked when a plugin loads.
RANGE = ">=0.1,<1"
REPOSITORY = "https://github.com/enginebay/enginebay"


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[-2]


def project(path: Path) -> dict[str, Any]:
    return dict(tomllib.loads(path.read_text(encoding="utf-8"))["project"])


@pytest.mark.parametrize(
    "path", [path for path in PACKAGES if name_of(path) != "core"], ids=name_of
)
def test_package_requires_the_common_range_of_core(path: Path) -> None:
    wanted = [Requirement(line) for line in project(path)["dependencies"]]
    (core,) = [requirement for requirement in wanted if requirement.name == "enginebay"]
    assert core.specifier == Requirement(f"enginebay{RANGE}").specifier


@pytest.mark.parametrize("path", PACKAGES, ids=name_of)
def test_package_declares_its_systems_and_pythons(path: Path) -> None:
    table = project(path)
    assert table["requires-python"] == ">=3.11"
    classifiers = table["classifiers"]
    assert any(line.startswith("Operating System :: POSIX") for line in classifiers)
    pythons = [line for line in classifiers if line.startswith("Programming Language :: Python ::")]
    assert pythons == [
        f"Programming Language :: Python :: {version}" for version in ("3", "3.11", "3.12", "3.13")
    ]


@pytest.mark.parametrize("path", [path for path in PACKAGES if path != TEMPLATE], ids=name_of)
def test_package_links_to_its_folder_in_the_repository(path: Path) -> None:
    folder = path.relative_to(ROOT).parent.as_posix()
    assert project(path)["urls"] == {
        "Homepage": REPOSITORY,
        "Documentation": f"{REPOSITORY}/tree/main/docs",
        "Source": f"{REPOSITORY}/tree/main/{folder}",
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
        "Issues": f"{REPOSITORY}/issues",
    }


def test_constraints_pin_the_oldest_supported_torch() -> None:
    export = project(ROOT / "packages/core/pyproject.toml")["optional-dependencies"]["export"]
    (floor,) = [Requirement(line) for line in export if Requirement(line).name == "torch"]
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    (pin,) = re.findall(r"^torch==(\S+)", constraints, re.MULTILINE)
    assert floor.specifier == SpecifierSet(f">={pin}")


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "ncnn"])
def test_the_engines_versions_are_those_of_the_backends_information(backend: str) -> None:
    """``BackendInfo`` is the one place: the package installs these, and its page names them."""
    info = eb.get_backend(backend).info
    stated = {Requirement(part) for text in info.runtime_distributions for part in text.split("|")}
    folder = ROOT / f"packages/backend-{backend}"
    table = project(folder / "pyproject.toml")
    extras = table.get("optional-dependencies", {})
    lines = [*table["dependencies"], *(line for extra in extras.values() for line in extra)]
    engines = {requirement.name for requirement in stated}
    assert {each for each in map(Requirement, lines) if each.name in engines} == stated
    page = (folder / "README.md").read_text(encoding="utf-8")
    # A feature may need a newer version than the package: "Such providers require …".
    named = re.findall(r"(?:installs|OpenVINO) .*?([\d.]+) or newer", page)
    assert all(f">={version}" == str(each.specifier) for version in named for each in stated)
    assert named or backend == "ncnn"
