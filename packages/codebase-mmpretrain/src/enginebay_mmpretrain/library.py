"""mmpretrain, the library of the models in this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors.sources import no_model_error
from enginebay_openmmlab import Library

if TYPE_CHECKING:
    from mmengine.config import Config


class _Mmpretrain(Library):
    def named_config(self, name: str) -> Config:
        """Read the config with this name in ``list_models()``, and the URL of its weights."""
        import mmpretrain

        known = mmpretrain.list_models()
        if name.lower() not in known:
            error = no_model_error(f"mmpretrain {mmpretrain.__version__}", name, known)
            error.hint = error.hint or "mmpretrain.list_models() returns all names"
            raise error
        entry = mmpretrain.ModelHub.get(name)
        config: Config = entry.config
        config.load_from = entry.weights
        return config


MMPRETRAIN = _Mmpretrain(
    name="mmpretrain",
    fork="onedl-mmpretrain",
    base="mmpretrain.models.BaseClassifier",
    noun="classifier",
    example="model = dict(type='ImageClassifier', backbone=…, head=…)",
)
