"""An artifact: a directory with an engine's files and the manifest that vouches for them.

It appears complete or not at all (:func:`staging`), and is checked file by file before any
engine reads it (:func:`open_artifact`). It can be moved and copied: it knows no path to itself.
"""

from __future__ import annotations

from enginebay.artifact.loading import Artifact, check_pinned, open_artifact
from enginebay.artifact.manifest import (
    MANIFEST_FORMAT,
    MANIFEST_NAME,
    FileEntry,
    IRRecord,
    Manifest,
    Part,
    PluginRecord,
)
from enginebay.artifact.parts import convert_parts, load_parts
from enginebay.artifact.stage import Staging, staging
from enginebay.artifact.verdict import OutputComparison, Verification

__all__ = [
    "MANIFEST_FORMAT",
    "MANIFEST_NAME",
    "Artifact",
    "FileEntry",
    "IRRecord",
    "Manifest",
    "OutputComparison",
    "Part",
    "PluginRecord",
    "Staging",
    "Verification",
    "check_pinned",
    "convert_parts",
    "load_parts",
    "open_artifact",
    "staging",
]
