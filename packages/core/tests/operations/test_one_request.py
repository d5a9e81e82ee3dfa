"""``load`` and ``verify`` make the same checks before they open an artifact."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("open_it", [eb.load, eb.verify])
def test_artifact_bound_to_other_hardware_is_refused(
    loopback: str, tmp_path: Path, open_it: Callable[[Any], Any]
) -> None:
    deployed = eb.deploy(nn.ReLU(), torch.ones(2), backend=loopback, work_dir=tmp_path / "a")
    file = deployed.artifact.path / "manifest.json"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps(manifest | {"pinned": {"gpu": "H100"}}))
    with pytest.raises(
        ArtifactError, match=r'^the artifact runs only with gpu "H100", found none\nhint: [^\n]+$'
    ):
        open_it(deployed.artifact.path)
