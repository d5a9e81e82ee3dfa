"""A library built like those of OpenMMLab."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from enginebay_openmmlab import Library

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = {
    "__init__.py": "__version__ = '1.0.0'\n",
    "registry.py": """\
from mmengine.registry import DATASETS as ALL_DATASETS, MODELS as ALL_MODELS, Registry

MODELS = Registry('model', parent=ALL_MODELS, scope='mmzoo')
DATASETS = Registry(
    'dataset', parent=ALL_DATASETS, scope='mmzoo', locations=['mmzoo.datasets'])
""",
    "models.py": """\
from torch import nn

from mmzoo.registry import MODELS


class Tagger(nn.Module):
    def __init__(self, layers=(), parts=(), data_preprocessor=None):
        super().__init__()
        self.parts = nn.Sequential(*(MODELS.build(part) for part in parts))
        self.data_preprocessor = data_preprocessor

    def forward(self, images):
        return self.parts(images)


MODELS.register_module(module=Tagger)
MODELS.register_module(module=type('Guesser', (Tagger,), {}))
MODELS.register_module(module=type('Other', (nn.Module,), {}))
MODELS.register_module(module=nn.SyncBatchNorm)


@MODELS.register_module()
def NeedsMore():
    raise ImportError('needs another package')
""",
    "datasets.py": """\
from mmzoo.registry import DATASETS

print('a data set is skipped')


@DATASETS.register_module()
class Pets:
    METAINFO = {'classes': ('cat', 'dog')}
""",
    ".mim/configs/_base_/parts.py": "parts = []\n",
    ".mim/configs/tagging/tiny/tiny_8xb32_pets.py": """\
model = dict(type='Tagger', parts=[dict(type='SyncBatchNorm', num_features=3)])
data_preprocessor = dict(mean=[1.0, 2.0, 3.0], to_rgb=True)
test_dataloader = dict(dataset=dict(type='Pets'))
""",
}
ZOO = Library(
    name="mmzoo",
    fork="onedl-mmzoo",
    base="mmzoo.models.Tagger",
    noun="tagger",
    example="model = dict(type='Tagger', parts=…)",
    refused=("Guesser",),
)


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """Return a library that is installed during the test; the working folder is empty."""
    for name, text in FILES.items():
        path = tmp_path / "site" / "mmzoo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "site")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    yield ZOO
    for name in [name for name in sys.modules if name.partition(".")[0] == "mmzoo"]:
        del sys.modules[name]
    if registries := sys.modules.get("mmengine.registry"):  # they keep the library's registries
        for registry in (registries.MODELS, registries.DATASETS):
            registry.children.pop("mmzoo", None)
