"""An artifact: a directory with an engine's files and the manifest that vouches for them.

It appears complete or not at all (:func:`staging`), and is checked file by file before any
engine reads it (:func:`open_artifact`, :func:`load_request`). It can be moved and
copied: it knows no path to itself.

A manifest is read and shown without a backend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.artifact.isolated import IsolatedWrapper
    from enginebay.artifact.manifest import (
        MANIFEST_FORMAT,
        MANIFEST_NAME,
        ComparatorRecord,
        FileEntry,
        IRRecord,
        Manifest,
        Part,
        PluginRecord,
        RunRecord,
    )
    from enginebay.artifact.manifest_building import build_manifest, portable
    from enginebay.artifact.node_modules import record_modules
    from enginebay.artifact.opening import (
        SAMPLES_FILE,
        Artifact,
        open_artifact,
        use_artifact,
    )
    from enginebay.artifact.parts import SIMULATION_FOLDER, convert_parts, simulation_folder
    from enginebay.artifact.request import LoadRequest, load_request
    from enginebay.artifact.runs import record_run, run_record
    from enginebay.artifact.stage import Staging, move_artifact, staging
    from enginebay.artifact.target import check_target

__all__ = [
    "MANIFEST_FORMAT",
    "MANIFEST_NAME",
    "SAMPLES_FILE",
    "SIMULATION_FOLDER",
    "Artifact",
    "ComparatorRecord",
    "FileEntry",
    "IRRecord",
    "IsolatedWrapper",
    "LoadRequest",
    "Manifest",
    "Part",
    "PluginRecord",
    "RunRecord",
    "Staging",
    "build_manifest",
    "check_target",
    "convert_parts",
    "load_request",
    "move_artifact",
    "open_artifact",
    "portable",
    "record_modules",
    "record_run",
    "run_record",
    "simulation_folder",
    "staging",
    "use_artifact",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Artifact": "artifact.opening",
        "ComparatorRecord": "artifact.manifest",
        "FileEntry": "artifact.manifest",
        "IRRecord": "artifact.manifest",
        "IsolatedWrapper": "artifact.isolated",
        "LoadRequest": "artifact.request",
        "MANIFEST_FORMAT": "artifact.manifest",
        "MANIFEST_NAME": "artifact.manifest",
        "Manifest": "artifact.manifest",
        "Part": "artifact.manifest",
        "PluginRecord": "artifact.manifest",
        "RunRecord": "artifact.manifest",
        "SAMPLES_FILE": "artifact.opening",
        "SIMULATION_FOLDER": "artifact.parts",
        "Staging": "artifact.stage",
        "build_manifest": "artifact.manifest_building",
        "check_target": "artifact.target",
        "convert_parts": "artifact.parts",
        "load_request": "artifact.request",
        "move_artifact": "artifact.stage",
        "open_artifact": "artifact.opening",
        "portable": "artifact.manifest_building",
        "record_modules": "artifact.node_modules",
        "record_run": "artifact.runs",
        "run_record": "artifact.runs",
        "simulation_folder": "artifact.parts",
        "staging": "artifact.stage",
        "use_artifact": "artifact.opening",
    },
)
