"""The report that a sweep writes into its output folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enginebay_testing import temporary_backend
from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from collections.abc import Iterator

NET = "import torch\n\n\ndef build():\n    return torch.nn.ReLU(), torch.ones(1, 3)\n"


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    Path("sweep.toml").write_text('models = ["net.py:build"]\nbackends = ["loopback"]')
    with temporary_backend("loopback", "enginebay_testing.loopback"):
        yield


@pytest.mark.usefixtures("_here")
def test_sweep_writes_its_report_next_to_the_rows(capfd: pytest.CaptureFixture[str]) -> None:
    ran = call_command(capfd, "sweep", "sweep.toml", "--output", "swept")
    assert ran.code == 0
    assert "report: swept/report.html\n" in ran.err
    assert "net.py:build" in Path("swept/report.html").read_text()


@pytest.mark.usefixtures("_here")
def test_foreign_page_is_not_replaced(capfd: pytest.CaptureFixture[str]) -> None:
    page = Path("swept/report.html")
    page.parent.mkdir()
    page.write_text("<p>mine</p>")
    ran = call_command(capfd, "sweep", "sweep.toml", "--output", "swept")
    assert ran.code == 2
    assert "exists and is not a report, so it is not replaced" in ran.err
    assert page.read_text() == "<p>mine</p>"
