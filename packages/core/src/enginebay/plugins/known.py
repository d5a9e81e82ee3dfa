"""Enginebay's own packages and what they provide, from ``known.toml``.

The file is read when a message needs it, and not at every start.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What a package can provide: the tables of the file.
Kind: TypeAlias = Literal["backends", "model_sources", "tasks", "comparators", "commands"]


def known_packages(kind: Kind) -> Mapping[str, str]:
    """Return name → the requirement for pip, quoted for a shell, of what Enginebay provides.

    Example:
        >>> known_packages("comparators")["detections"]
        'enginebay-vision'
    """
    from shlex import quote

    return {name: quote(requirement) for name, requirement in _read()[kind].items()}


def usual_name(word: str) -> str | None:
    """Return the backend or model source that people also call ``word``; None if none is known."""
    return cast("str | None", _read()["other_words"].get(word))


def command_with(flag: str) -> str | None:
    """Return the command line of Enginebay that has a flag; None if none is known."""
    return cast("str | None", _read()["flags"].get(flag))


def preferred_backend() -> str:
    """Return the backend of a deployment that names none, if several are installed, or none."""
    return cast("str", _read()["default_backend"])


@cache
def _read() -> dict[str, Any]:
    import tomllib
    from pathlib import Path

    return tomllib.loads(Path(__file__).with_name("known.toml").read_text(encoding="utf-8"))
