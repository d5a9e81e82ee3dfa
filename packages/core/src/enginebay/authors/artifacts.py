"""Artifacts for authors of plugins: manifests, requests for loading, building, moving a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.artifact import (
        LoadRequest as LoadRequest,
        Manifest as Manifest,
        check_target as check_target,
        load_request as load_request,
        move_artifact as move_artifact,
        staging as staging,
        use_artifact as use_artifact,
    )
    from enginebay.operations import (
        input_sets as input_sets,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "artifact": (
            "LoadRequest Manifest check_target load_request move_artifact staging use_artifact"
        ),
        "operations": "input_sets",
    },
)
