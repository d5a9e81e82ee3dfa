"""What commands print: JSON documents, plain tables, a little colour on terminals."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from enginebay.artifact import FileEntry

#: The version of every JSON document; it grows when a key is removed or changes its meaning.
SCHEMA = 1
#: What the commands about backends say where there is none.
NONE_INSTALLED = "No backend is installed. hint: pip install 'enginebay-onnxruntime[cpu]'"
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}


@contextmanager
def talk_on_stderr() -> Iterator[None]:
    """Send to stderr whatever a model's code or an engine prints meanwhile, C++ included.

    stdout is for the command's own data: one stray line would spoil a JSON document.
    """
    from contextlib import redirect_stdout

    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document on stdout."""
    import json

    sys.stdout.write(json.dumps({"schema": SCHEMA, **document}, indent=2) + "\n")


def styled(text: str, colour: str, stream: TextIO) -> str:
    """The text in a colour where ``stream`` is a terminal and NO_COLOR is not set."""
    if os.environ.get("NO_COLOR") or not stream.isatty():
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def print_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()
) -> None:
    """Print aligned columns on stdout; the last one may be as long as it likes.

    Args:
        header: The columns' names.
        rows: One text for each column.
        right: The columns that hold numbers, which end at the same place.
    """
    lines = [tuple(header), *(tuple(map(_plain, row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for number, line in enumerate(lines):
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(header, line, widths, strict=True)
        ]
        text = "  ".join(cells).rstrip()
        sys.stdout.write(f"{text if number else styled(text, 'bold', sys.stdout)}\n")


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print ``name  value`` lines on stdout, the empty ones left out, a name only once in a row."""
    shown = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in shown), default=0)
    before = ""
    for name, value in shown:
        sys.stdout.write(f"{'' if name == before else name:<{width}}  {_plain(value)}\n")
        before = name


def print_next(commands: Iterable[str]) -> None:
    """Print what to type next."""
    sys.stdout.write("\nNext:\n")
    for command in commands:
        sys.stdout.write(f"  {command}\n")


def say(text: str) -> None:
    """Print a line of talk on stderr."""
    sys.stderr.write(text + "\n")


def short_path(path: Path) -> str:
    """The path as people would type it here: relative where it lies below the current folder."""
    from pathlib import Path

    here = Path.cwd()
    if path != here and path.is_relative_to(here):
        relative = str(path.relative_to(here))
        return f"./{relative}" if relative.startswith("-") else relative
    return str(path)


def human_size(size: int) -> str:
    """Bytes as people read them, in powers of 1024.

    Example:
        >>> human_size(1536)
        '1.5 KiB'
    """
    value = float(size)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def size_text(entries: Sequence[FileEntry]) -> str:
    """How many files, and how much they hold together.

    Example:
        >>> from enginebay.artifact import FileEntry
        >>> size_text([FileEntry("model.onnx", "…", 2048)])
        '1 file, 2.0 KiB'
    """
    count = f"{len(entries)} file{'' if len(entries) == 1 else 's'}"
    return f"{count}, {human_size(sum(entry.size for entry in entries))}"


def _plain(text: str) -> str:
    """Text from a file must not move the cursor or break a row; colours may pass."""
    bare = text
    for code in (0, *_COLOURS.values()):
        bare = bare.replace(f"\x1b[{code}m", "")
    return text if bare.isprintable() else repr(bare)[1:-1]
