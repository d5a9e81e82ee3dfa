"""Pictures in folders, and files that belong to them by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

#: Endings of the files that are pictures.
SUFFIXES = frozenset(
    (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
)


def is_picture(path: Path) -> bool:
    """True for a file that ends as pictures do."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def find_pictures(path: Path) -> list[Path]:
    """The pictures in a folder and below it, in the order of their names."""
    return [file for file in sorted(path.rglob("*")) if is_picture(file)]


def find_pairs(
    path: Path, layouts: Sequence[tuple[str, str]], suffixes: Collection[str] = SUFFIXES
) -> list[tuple[Path, Path | None]]:
    """Files that are annotations, each with the picture of the same name in another folder.

    Args:
        path: The folder of both folders.
        layouts: Pairs of names: of the folder of pictures, and of that of annotations. The first
            whose annotations are there is taken; without one, all pictures are without.
        suffixes: How annotations end.

    Raises:
        InputError: An annotation has no picture.
    """
    layout = next((each for each in layouts if (path / each[1]).is_dir()), None)
    if layout is None:
        return [(file, None) for file in find_pictures(path)]
    pictures, annotations = (path / name for name in layout)
    known = {file.relative_to(pictures).with_suffix(""): file for file in find_pictures(pictures)}
    pairs: list[tuple[Path, Path | None]] = []
    for file in sorted(annotations.rglob("*")):
        if file.suffix.lower() in suffixes and not file.name.startswith("."):
            name = file.relative_to(annotations).with_suffix("")
            if name not in known:
                raise InputError(f"'{file}' belongs to no picture: '{pictures}' holds no '{name}'")
            pairs.append((known[name], file))
    return pairs


def only_file(files: Sequence[Path], folder: Path) -> Path | None:
    """Return the file that has a folder's annotations; None if there is none.

    Raises:
        InputError: There are several.
    """
    if len(files) > 1:
        raise InputError(
            f"'{folder}' holds {len(files)} {files[0].suffix} files, wanted one with annotations",
            hint=f"keep one of {', '.join(str(file.relative_to(folder)) for file in files)}",
        )
    return files[0] if files else None
