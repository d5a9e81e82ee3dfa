"""An artifact: a directory with an engine's files and the manifest that vouches for them.

It appears complete or not at all (:func:`staging`), and is checked file by file before any
engine reads it (:func:`open_artifact`). It can be moved and copied: it knows no path to itself.
"""

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
from enginebay.artifact.staging import Staging, staging
from enginebay.artifact.verdict import OutputComparison, Verdict, Verification

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
    "Verdict",
    "Verification",
    "check_pinned",
    "open_artifact",
    "staging",
]
