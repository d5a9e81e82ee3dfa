"""File names that end with the suffix of the file's format."""

from __future__ import annotations

from pathlib import PurePosixPath

from enginebay.errors import ParamsError


class FileName(str):
    """The name of a file, without its folder.

    The suffix is appended to a name that does not end with it. Any other dot belongs to the name:
    ``resnet.v1`` becomes ``resnet.v1.onnx``, since a version cannot be told from a suffix.

    Args:
        name: The name, with or without the suffix.
        suffix: The suffix with its dot; by default the part of ``name`` from its last dot.
        siblings: The suffixes of further files of the same name.

    Attributes:
        suffix: The suffix with its dot, or an empty string.
        siblings: The suffixes of further files.

    Raises:
        ParamsError: The name is not a text, is empty, has a path separator, or is only the suffix.

    Example:
        >>> net = FileName("net", suffix=".param")
        >>> net, net.sibling(".bin")
        ('net.param', 'net.bin')
    """

    __slots__ = ("siblings", "suffix")

    suffix: str
    siblings: tuple[str, ...]

    def __new__(  # noqa: D102 - see the class
        cls, name: str, *, suffix: str = "", siblings: tuple[str, ...] = ()
    ) -> FileName:
        _check_suffix(suffix)
        _check_name(name, suffix)
        self = super().__new__(cls, name if name.endswith(suffix) else name + suffix)
        self.suffix = suffix or PurePosixPath(name).suffix
        self.siblings = siblings
        return self

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self.removesuffix(self.suffix)

    def sibling(self, suffix: str) -> FileName:
        """Return the same file name with another suffix.

        Example:
            >>> FileName("resnet.v1", suffix=".xml").sibling(".bin")
            'resnet.v1.bin'
        """
        return FileName(self.stem + suffix, suffix=suffix)


def _check_suffix(suffix: str) -> None:
    if suffix and (suffix[0] != "." or suffix == "." or _has_separator(suffix)):
        raise ParamsError(f"{suffix!r} is not a suffix: expected a dot and a name, like '.onnx'")


def _check_name(name: object, suffix: str) -> None:
    if not isinstance(name, str):
        found = type(name).__name__
        raise ParamsError(f"{name!r} is not a file name: expected a text, found {found}")
    if _has_separator(name):
        raise ParamsError(
            f"{name!r} is not a file name: expected a name without a folder",
            hint="pass the folder as --work-dir",
        )
    if name in {"", ".", "..", suffix} or "\0" in name:
        raise ParamsError(f"{name!r} is not a file name: expected a name like 'model{suffix}'")


def _has_separator(name: str) -> bool:
    # Both separators on every system, since artifacts are copied between systems.
    return "/" in name or "\\" in name
