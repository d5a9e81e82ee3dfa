"""The batches: models with typical inputs, never deployed before their batch was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from . import (
    audio,
    caches,
    detectors,
    diffusion,
    documents,
    further_pick,
    later_pick,
    lucidrains,
    masks,
    more_architectures,
    newer_transformers,
    small_packages,
    tables,
    timm_models,
    torchvision_models,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: A function that builds a model with its example inputs.
Build: TypeAlias = "Callable[[], tuple[Any, Any]]"

BATCHES: dict[str, dict[str, Build]] = {
    "timm": timm_models.MODELS,
    "torchvision": torchvision_models.MODELS,
    "detectors": detectors.MODELS,
    "masks and restoration": masks.MODELS,
    "diffusion": diffusion.MODELS,
    "audio": audio.MODELS,
    "documents, faces, matching": documents.MODELS,
    "tables, graphs, series, control": tables.MODELS,
    "layers of lucidrains": lucidrains.MODELS,
    "newer transformers": newer_transformers.MODELS,
    "caches and states": caches.MODELS,
    "small packages": small_packages.MODELS,
    "more architectures": more_architectures.MODELS,
    "further pick": further_pick.MODELS,
    "later pick": later_pick.MODELS,
}
