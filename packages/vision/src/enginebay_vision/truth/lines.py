"""Reads the file that lists images and the line of text in each image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import InputError
from enginebay_vision.truth.files import find_only_file

if TYPE_CHECKING:
    from pathlib import Path


def find_text_lines(path: Path) -> list[tuple[Path, str]] | None:
    """Return the image files and texts that the only ``.txt`` file of a folder lists.

    Each line of the file is the relative path of an image, a tab or a space, and the text. Without
    a ``.txt`` file, the result is None.

    Raises:
        InputError: There are several files, the file is not in UTF-8, or a line has no image or no
            text.
    """
    listing = find_only_file(sorted(path.glob("*.txt")), path)
    if listing is None:
        return None
    try:
        lines = listing.read_text("utf-8-sig").splitlines()  # without a byte order mark
    except (OSError, UnicodeDecodeError) as err:
        raise InputError(f"'{listing}' cannot be read as UTF-8: {err}") from err
    items = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        # A tab allows spaces in the path; without one, the path ends at the first space.
        name, _, text = line.partition("\t" if "\t" in line else " ")
        where = f"line {number} of '{listing}'"
        if not text:
            raise InputError(f"{where} is '{line}'; expected an image's path, a tab and the text")
        if not (path / name).is_file():
            raise InputError(f"{where} names the image '{name}', which is not in '{path}'")
        items.append((path / name, text))
    return items
