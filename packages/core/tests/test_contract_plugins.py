"""Plugins that were written for API version 1 load and run unchanged.

``contract_1`` has them as they were at its first release: the loopback backend, a backend that
``new-backend`` wrote, and the build cache, a plugin for every backend. Nothing there is edited.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import enginebay as eb
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator

PLUGINS = Path(__file__).with_name("contract_1")
BACKENDS = {
    "loopback": (PLUGINS / "loopback.py").read_text(encoding="utf-8"),
    "myengine": "enginebay_myengine.plugin",
}


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the packages of ``contract_1`` importable; the test ends without their modules."""
    monkeypatch.syspath_prepend(PLUGINS)
    before = set(sys.modules)
    yield
    ours = {folder.name for folder in PLUGINS.iterdir() if folder.is_dir()}
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ours:
            del sys.modules[name]


@pytest.mark.parametrize("name", BACKENDS)
def test_backend_of_version_1_is_checked_verified_and_loaded(name: str, tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    with temporary_backend(name, BACKENDS[name]):
        backend = eb.get_backend(name)
        assert backend.info.api_version == 1
        assert {check.status for check in backend.check_env().checks} == {"ok"}
        deployment = eb.deploy(model, torch.ones(2, 4), backend=name, work_dir=tmp_path / "a")
        assert deployment.verdict == "verified"
        with eb.load(tmp_path / "a") as wrapper:
            (output,) = wrapper({"input": np.ones((2, 4), np.float32)}).values()
    expected = model(torch.ones(2, 4)).detach().numpy()
    np.testing.assert_allclose(output, expected, rtol=1e-5)


def test_plugin_for_every_backend_of_version_1_sees_their_conversions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cache has a folder of its own here, so it needs nothing of this library.
    monkeypatch.setitem(sys.modules, "platformdirs", SimpleNamespace(user_cache_path=Path))
    monkeypatch.setenv("ENGINEBAY_CACHE_DIR", str(tmp_path / "cache"))
    linear, x = torch.nn.Linear(4, 3), torch.ones(2, 4)
    with (
        temporary_backend("loopback", BACKENDS["loopback"]),
        temporary_backend("build-cache", "enginebay_build_cache.plugin", group="enginebay.plugins"),
    ):
        from enginebay_build_cache.store import Store

        ir = eb.export(linear, x, backend="loopback", path=tmp_path / "model.onnx")
        found = []
        for folder in ("first", "second"):
            eb.convert(ir, backend="loopback", work_dir=tmp_path / folder)
            eb.load(tmp_path / folder).close()
            found += Store.from_environment().entries()
    built, used = found
    assert built.digest == used.digest
    assert built.used < used.used
