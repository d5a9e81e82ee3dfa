"""Image files in folders, and annotation files with the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

#: The suffixes of image files.
SUFFIXES = frozenset(
    (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
)


def is_picture(path: Path) -> bool:
    """Return True for a file with the suffix of an image."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def find_pictures(path: Path) -> list[Path]:
    """Return the images in a folder and its subfolders, in the order of their names."""
    return [file for file in sorted(path.rglob("*")) if is_picture(file)]


def find_pairs(
    path: Path, layouts: Sequence[tuple[str, str]], suffixes: Collection[str] = SUFFIXES
) -> list[tuple[Path, Path | None]]:
    """Return annotation files, each with the image of the same name in another folder.

    Args:
        path: The folder of both folders.
        layouts: Pairs of folder names: of images and of annotations. The first one with a folder
            of annotations is used; without one, images have no annotations.
        suffixes: The suffixes of annotation files.

    Raises:
        InputError: An annotation has no image.
    """
    layout = next((names for names in layouts if (path / names[1]).is_dir()), None)
    if layout is None:
        return [(file, None) for file in find_pictures(path)]
    pictures, annotations = (path / name for name in layout)
    known = {file.relative_to(pictures).with_suffix(""): file for file in find_pictures(pictures)}
    pairs: list[tuple[Path, Path | None]] = []
    for file in sorted(annotations.rglob("*")):
        if file.suffix.lower() in suffixes and not file.name.startswith("."):
            name = file.relative_to(annotations).with_suffix("")
            if name not in known:
                raise InputError(
                    f"'{file}' has no matching image: '{pictures}' contains no '{name}'"
                )
            pairs.append((known[name], file))
    return pairs


def find_only_file(files: Sequence[Path], folder: Path) -> Path | None:
    """Return the only file, which has a folder's annotations; None without files.

    Raises:
        InputError: There are several files.
    """
    if len(files) > 1:
        raise InputError(
            f"'{folder}' contains {len(files)} {files[0].suffix} files; "
            "expected one with annotations",
            hint="remove all but one of "
            + ", ".join(str(file.relative_to(folder)) for file in files),
        )
    return files[0] if files else None
