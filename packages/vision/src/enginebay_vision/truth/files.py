"""Finds image files in folders, and annotation files with the same names."""

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


def is_image_file(path: Path) -> bool:
    """Return True for an existing file that has the suffix of an image and is not hidden."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def find_images(path: Path) -> list[Path]:
    """Return the image files in a folder and all its subfolders, in the order of their paths."""
    # Sorted: the order of a file system is arbitrary.
    return [file for file in sorted(path.rglob("*")) if is_image_file(file)]


def find_image_pairs(
    path: Path, layouts: Sequence[tuple[str, str]], suffixes: Collection[str] = SUFFIXES
) -> list[tuple[Path, Path | None]]:
    """Return pairs of an image file and the annotation file with the same name before the suffix.

    Args:
        path: The folder that contains a folder of images and a folder of annotations.
        layouts: Pairs of possible names of the two folders. The first pair whose folder of
            annotations exists is used. If no pair has one, each image is returned with None.
        suffixes: The suffixes of annotation files.

    Raises:
        InputError: An annotation has no image.
    """
    layout = next((names for names in layouts if (path / names[1]).is_dir()), None)
    if layout is None:
        return [(file, None) for file in find_images(path)]
    images, annotations = (path / name for name in layout)
    known = {file.relative_to(images).with_suffix(""): file for file in find_images(images)}
    pairs: list[tuple[Path, Path | None]] = []
    for file in sorted(annotations.rglob("*")):
        if file.suffix.lower() in suffixes and not file.name.startswith("."):
            name = file.relative_to(annotations).with_suffix("")
            if name not in known:
                raise InputError(f"'{file}' has no matching image: '{images}' contains no '{name}'")
            pairs.append((known[name], file))
    return pairs


def find_only_file(files: Sequence[Path], folder: Path) -> Path | None:
    """Return the only file in ``files``, the annotation files of ``folder``; None without files.

    Raises:
        InputError: There are several files.
    """
    if len(files) > 1:
        raise InputError(
            f"'{folder}' contains {len(files)} {files[0].suffix} files; "
            "expected a single annotation file",
            hint="remove all but one of "
            + ", ".join(str(file.relative_to(folder)) for file in files),
        )
    return files[0] if files else None
