"""The command that installs a package of Enginebay, by where Enginebay itself came from."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

import enginebay.installation as installation
from enginebay.environment import install_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REPOSITORY = "https://host.example/enginebay.git"
ARCHIVE = "https://host.example/enginebay/archive/main.zip"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Make Enginebay installed from the place that ``direct_url.json`` says, or without one."""

    def install(origin: object) -> None:
        folder = tmp_path / "enginebay-0.1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Name: enginebay\nVersion: 0.1.0\n")
        if origin is not None:
            text = origin if isinstance(origin, str) else json.dumps(origin)
            (folder / "direct_url.json").write_text(text)
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
        installation._read_origin.cache_clear()

    yield install
    installation._read_origin.cache_clear()


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        pytest.param(None, "'enginebay-lab[metrics]'", id="an index"),
        pytest.param("{", "'enginebay-lab[metrics]'", id="a broken record"),
        pytest.param("[]", "'enginebay-lab[metrics]'", id="another document"),
        pytest.param(
            {"url": "file:///my%20work/clone/packages/core", "dir_info": {"editable": True}},
            "-e '/my work/clone/packages/lab[metrics]'",
            id="an editable clone",
        ),
        pytest.param(
            {"url": "file:///work/clone/packages/core", "dir_info": {}},
            "'/work/clone/packages/lab[metrics]'",
            id="a clone",
        ),
        pytest.param(
            {"url": "file:///wheels/enginebay-0.1.0-py3-none-any.whl", "archive_info": {}},
            "--find-links /wheels 'enginebay-lab[metrics]'",
            id="a wheel",
        ),
        pytest.param(
            {"url": "https://host.example/enginebay-0.1.0-py3-none-any.whl", "archive_info": {}},
            "'enginebay-lab[metrics] @ https://host.example/enginebay_lab-0.1.0-py3-none-any.whl'",
            id="a wheel of a server",
        ),
        pytest.param(
            {"url": ARCHIVE, "archive_info": {}, "subdirectory": "packages/core"},
            f"'enginebay-lab[metrics] @ {ARCHIVE}#subdirectory=packages/lab'",
            id="an archive",
        ),
        pytest.param(
            {
                "url": REPOSITORY,
                "vcs_info": {"vcs": "git", "commit_id": "0a1b2c", "requested_revision": "main"},
                "subdirectory": "packages/core",
            },
            f"'enginebay-lab[metrics] @ git+{REPOSITORY}@0a1b2c#subdirectory=packages/lab'",
            id="a repository",
        ),
    ],
)
def test_package_is_installed_from_where_enginebay_came(
    installed: Callable[[object], None], origin: Any, expected: str
) -> None:
    installed(origin)
    assert install_command("enginebay-lab[metrics]") == f"pip install {expected}"
    assert install_command("enginebay-lab[metrics]", "-U") == f"pip install -U {expected}"


def test_package_that_needs_another_is_installed_with_it(
    installed: Callable[[object], None],
) -> None:
    installed({"url": "file:///clone/packages/core", "dir_info": {"editable": True}})
    both = "-e /clone/packages/codebase-openmmlab -e '/clone/packages/codebase-mmseg[mmseg]'"
    assert install_command("enginebay-mmseg[mmseg]") == f"pip install {both}"


def test_folder_of_wheels_has_the_packages_that_one_needs(
    installed: Callable[[object], None],
) -> None:
    installed({"url": "file:///wheels/enginebay-0.1.0-py3-none-any.whl", "archive_info": {}})
    assert install_command("enginebay-mmseg") == "pip install --find-links /wheels enginebay-mmseg"


def test_other_packages_come_from_the_index(installed: Callable[[object], None]) -> None:
    installed({"url": "file:///work/clone/packages/core", "dir_info": {"editable": True}})
    assert install_command("onnx>=1.21") == "pip install 'onnx>=1.21'"
    assert install_command("enginebay-of-a-stranger") == "pip install enginebay-of-a-stranger"


def test_version_of_a_folder_is_not_asked_for(installed: Callable[[object], None]) -> None:
    installed({"url": "file:///work/clone/packages/core", "dir_info": {}})
    assert install_command("enginebay>=0.2") == "pip install /work/clone/packages/core"


def test_without_metadata_the_name_is_the_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    installation._read_origin.cache_clear()
    assert install_command("enginebay-lab") == "pip install enginebay-lab"
    installation._read_origin.cache_clear()
