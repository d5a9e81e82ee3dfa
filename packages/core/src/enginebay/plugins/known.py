"""Enginebay's own packages and what they provide, from ``known.toml``.

The file is read when a message needs it, and not at every start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from enginebay.installation import read_known

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What a package can provide: the tables of the file.
Kind: TypeAlias = Literal["backends", "model_sources", "tasks", "comparators", "commands"]


def known_packages(kind: Kind) -> Mapping[str, str]:
    """Return name → the requirement for pip of what Enginebay's own packages provide.

    Example:
        >>> known_packages("comparators")["detections"]
        'enginebay-vision'
    """
    return cast("dict[str, str]", read_known()[kind])


def usual_name(word: str) -> str | None:
    """Return the backend or model source that people also call ``word``; None if none is known."""
    return cast("str | None", read_known()["other_words"].get(word))


def command_with(flag: str) -> str | None:
    """Return the command line of Enginebay that has a flag; None if none is known."""
    return cast("str | None", read_known()["flags"].get(flag))


def preferred_backend() -> str:
    """Return the backend of a deployment that names none, if several are installed, or none."""
    return cast("str", read_known()["default_backend"])
