"""A new backend's package, complete: it installs, runs, and keeps every law as it is written."""

from __future__ import annotations

import re
from pathlib import Path

from enginebay.errors import ArtifactExistsError, UsageError

_TEMPLATE = Path(__file__).with_name("template")
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


def new_backend(name: str, parent: str | Path = ".") -> list[Path]:
    """Write the package ``enginebay-NAME`` into a folder of that name.

    Args:
        name: The backend's name, as users will type it: ``myengine``.
        parent: Where the folder goes.

    Returns:
        The files, the folder's ``pyproject.toml`` first.

    Raises:
        UsageError: The name is none, or it is taken: by an installed backend or distribution, or
            by one of Enginebay's own backends.
        ArtifactExistsError: The folder is there already.
    """
    _check_name(name)
    folder = Path(parent) / f"enginebay-{name}"
    if folder.exists():
        raise ArtifactExistsError(f"'{folder}' is there already", hint="choose another name")
    written = []
    for source in sorted(_TEMPLATE.rglob("*")):
        if source.is_file() and source.suffix in (".in", ".typed"):
            target = folder / _filled(source.relative_to(_TEMPLATE).as_posix(), name)
            target = target.with_suffix("") if source.suffix == ".in" else target
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_filled(source.read_text(encoding="utf-8"), name), encoding="utf-8")
            written.append(target)
    return sorted(written, key=lambda path: path.name != "pyproject.toml")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' cannot be a backend's name: wanted lower-case letters, digits, - and _, "
            "a letter first",
            hint="enginebay new-backend myengine",
        )
    if taken := _taken(name):
        raise UsageError(taken, hint="choose another name")


def _taken(name: str) -> str:
    """Whose the backend's name or its distribution's is; empty where it is free."""
    from importlib_metadata import PackageNotFoundError, version

    from enginebay.plugins import KNOWN_DISTRIBUTIONS, list_backends

    for status in list_backends():
        if status.name == name:
            return f"backend '{name}' is installed already, from {status.provider}"
    if name in KNOWN_DISTRIBUTIONS:
        return f"backend '{name}' is Enginebay's own: pip install {KNOWN_DISTRIBUTIONS[name]}"
    try:
        return (
            f"distribution 'enginebay-{name}' is installed already: {version(f'enginebay-{name}')}"
        )
    except PackageNotFoundError:
        return ""


def _filled(text: str, name: str) -> str:
    """The template's text with the name in each of its forms."""
    words = re.split(r"[-_]", name)
    forms = {
        "enginebay_myengine": f"enginebay_{'_'.join(words)}",
        "Myengine": "".join(word.capitalize() for word in words),
        "myengine": name,
    }
    for form, filled in forms.items():
        text = text.replace(form, filled)
    return text
