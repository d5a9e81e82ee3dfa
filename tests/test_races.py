"""Each race of ``nox -s races`` for a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.races.races import TITLES, race

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", TITLES)
def test_readers_never_see_a_mixed_artifact(tmp_path: Path, name: str) -> None:
    for role, (runs, wrong) in race(name, tmp_path, seconds=1.0).items():
        assert not wrong, (role, wrong)
        assert runs > 0  # a busy machine manages only a few
