"""Config files in an empty folder."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from enginebay.config import read_config
from enginebay.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

Files = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(folder: Path) -> Callable[[str, str], Path]:
    def to(name: str, text: str) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    return to


@pytest.fixture
def loaded(write: Callable[[str, str], Path]) -> Files:
    """Writes files and loads the first: ``loaded(("a.py", "x = 1"), ...)``."""

    def read(*files: tuple[str, str], **options: Any) -> dict[str, Any]:
        paths = [write(name, text) for name, text in files]
        return read_config(paths[0], **options)

    return read


@pytest.fixture
def refused(loaded: Files) -> Files:
    """Like ``loaded`` for invalid files; returns the message."""

    def read(*files: tuple[str, str], **options: Any) -> str:
        with pytest.raises(ConfigError) as raised:
            loaded(*files, **options)
        return str(raised.value)

    return read
