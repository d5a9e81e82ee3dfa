"""``enginebay new-backend``: create a package for a new backend."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.commands import print_json, print_message
from enginebay.environment import install_command
from enginebay.errors import ArtifactExistsError, BackendNotFoundError, UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = ("enginebay new-backend myengine", "enginebay new-backend myengine --compiler")

_TEMPLATE = Path(__file__).with_name("template")

#: The files of a compiler; those of the same name replace the template's.
_COMPILER = Path(__file__).with_name("template_compiler")
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's arguments."""
    parser.usage = "enginebay new-backend NAME [--compiler] [--json]"
    parser.add_argument("name", metavar="NAME", help="the name of the new backend")
    parser.add_argument(
        "--compiler",
        action="store_true",
        help="for an engine that compiles models ahead of time, and knows tensors by position",
    )


def run(args: Namespace) -> int:
    """Write the package into ``enginebay-NAME``, and print the next command to run; return 0."""
    files = [path.as_posix() for path in write_package(args.name, compiler=args.compiler)]
    if args.json:
        print_json({"backend": args.name, "files": files})
        return 0
    sys.stdout.write("\n".join(files) + "\n")
    folder = f"enginebay-{args.name}"
    print_message(f"Next: cd {folder} && pip install -e '.[testing]' && pytest")
    return 0


def write_package(name: str, parent: str | Path = ".", *, compiler: bool = False) -> list[Path]:
    """Write the package ``enginebay-NAME`` into a folder of the same name.

    Args:
        name: The backend's name: ``myengine``.
        parent: The folder that will contain the package.
        compiler: True for an ahead-of-time compiler with an importer, modules and positional names.

    Returns:
        The paths of the files, starting with ``pyproject.toml``.

    Raises:
        UsageError: The name has forbidden characters, or is the name of an installed backend, of
            an installed distribution, or of one of Enginebay's backends.
        ArtifactExistsError: The folder exists.
    """
    _check_name(name)
    folder = Path(parent) / f"enginebay-{name}"
    if folder.exists():
        raise ArtifactExistsError(f"'{folder}' exists", hint="choose another name")
    sources = _list_templates(_TEMPLATE) | (_list_templates(_COMPILER) if compiler else {})
    paths = []
    for relative, source in sources.items():
        target = folder / _replace_names(relative, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        target.write_text(_replace_names(text, name), encoding="utf-8")
        paths.append(target)
    # pyproject.toml first, and the rest by name, from whichever template.
    return sorted(paths, key=lambda path: (path.name != "pyproject.toml", path))


def _list_templates(root: Path) -> dict[str, Path]:
    """Return the files of a template by the path in the new package."""
    # The suffix .in prevents imports and tests of the template's Python files.
    return {
        source.relative_to(root).as_posix().removesuffix(".in"): source
        for source in root.rglob("*")
        if source.is_file() and source.suffix in (".in", ".typed")
    }


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' cannot be a backend's name: expected lower-case letters, digits, - and _, "
            "starting with a letter",
            hint="enginebay new-backend myengine",
        )
    if conflict := _describe_conflict(name):
        raise UsageError(conflict, hint="choose another name")


def _describe_conflict(name: str) -> str:
    """Return a message if a backend or distribution has the name already; otherwise ``""``."""
    from importlib_metadata import PackageNotFoundError, version

    for status in eb.list_backends():
        if status.name == name:
            return f"backend '{name}' is installed already, from {status.provider}"
    try:
        eb.get_backend(name)
    except BackendNotFoundError as err:
        if err.distribution:
            return f"'{name}' is a backend of Enginebay: {install_command(err.distribution)}"
    distribution = f"enginebay-{name}"
    try:
        return f"distribution '{distribution}' is installed already: {version(distribution)}"
    except PackageNotFoundError:
        return ""


def _replace_names(text: str, name: str) -> str:
    words = re.split(r"[-_]", name)
    forms = {
        "enginebay_myengine": f"enginebay_{'_'.join(words)}",
        "Myengine": "".join(word.capitalize() for word in words),
        "myengine": name,
    }
    for form, replacement in forms.items():
        text = text.replace(form, replacement)
    return text
