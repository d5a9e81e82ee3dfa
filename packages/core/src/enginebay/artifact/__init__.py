"""An artifact: a directory with an engine's files and a manifest with their digests.

A new artifact appears complete or not at all (:func:`staging`). All of its files are checked before
an engine reads one (:func:`open_artifact`, :func:`load_request`). An artifact can be moved and
copied, since it contains no absolute path to itself. Reading its manifest requires no backend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.artifact.converted_engine import ConvertedEngine as ConvertedEngine
    from enginebay.artifact.engine_request import (
        LoadRequest as LoadRequest,
        load_request as load_request,
    )
    from enginebay.artifact.isolated_wrapper import IsolatedWrapper as IsolatedWrapper
    from enginebay.artifact.manifest import (
        MANIFEST_FORMAT as MANIFEST_FORMAT,
        MANIFEST_NAME as MANIFEST_NAME,
        ComparatorRecord as ComparatorRecord,
        FileEntry as FileEntry,
        IRRecord as IRRecord,
        Manifest as Manifest,
        PluginRecord as PluginRecord,
        Recipe as Recipe,
        RunRecord as RunRecord,
    )
    from enginebay.artifact.manifest_building import build_manifest as build_manifest
    from enginebay.artifact.node_modules import record_modules as record_modules
    from enginebay.artifact.opening import (
        SAMPLES_FILE as SAMPLES_FILE,
        Artifact as Artifact,
        open_artifact as open_artifact,
        use_artifact as use_artifact,
    )
    from enginebay.artifact.run_records import (
        record_run as record_run,
        run_record as run_record,
    )
    from enginebay.artifact.staging_directory import (
        StagingDirectory as StagingDirectory,
        move_artifact as move_artifact,
        staging as staging,
    )
    from enginebay.artifact.target_directory import check_target as check_target


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "artifact.converted_engine": "ConvertedEngine",
        "artifact.isolated_wrapper": "IsolatedWrapper",
        "artifact.manifest": (
            "ComparatorRecord FileEntry IRRecord MANIFEST_FORMAT MANIFEST_NAME Manifest "
            "PluginRecord Recipe RunRecord"
        ),
        "artifact.manifest_building": "build_manifest",
        "artifact.node_modules": "record_modules",
        "artifact.opening": "Artifact SAMPLES_FILE open_artifact use_artifact",
        "artifact.engine_request": "LoadRequest load_request",
        "artifact.run_records": "record_run run_record",
        "artifact.staging_directory": "StagingDirectory move_artifact staging",
        "artifact.target_directory": "check_target",
    },
)
