"""Backends, model sources, examples and the kit use only the public names of Enginebay.

The tests parse the files and do not import them, so that no engine has to be installed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import internal_names

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "packages" / "core"
SOURCES = sorted(
    {
        *ROOT.glob("packages/*/src/**/*.py"),
        *ROOT.glob("examples/**/*.py"),
        *CORE.glob("src/**/template*/src/**/*.py.in"),  # written by new-backend
    }
    - set(CORE.glob("src/enginebay/**/*.py"))
)


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
    assert list(internal_names(path.read_text(encoding="utf-8"))) == []


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
    assert len(list(internal_names(source))) == 1


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
    assert list(internal_names(source)) == []
