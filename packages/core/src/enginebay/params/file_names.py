"""File names that know their suffix."""

from __future__ import annotations

from pathlib import PurePosixPath

from enginebay.errors import ParamsError


class FileName(str):
    """The name of one file, without a folder.

    A declared suffix is added where the name does not end with it already. Any other dot belongs
    to the name: ``resnet.v1`` becomes ``resnet.v1.onnx``, since no list of suffixes could tell a
    version from a suffix.

    Args:
        name: The name, with the suffix or without.
        suffix: The suffix, with its dot; by default what follows the last dot of ``name``.

    Attributes:
        suffix: The suffix with its dot, or an empty string.

    Raises:
        ParamsError: The name is not a text, is empty, has a path separator, or is only the suffix.

    Example:
        >>> net = FileName("net", suffix=".param")
        >>> net, net.sibling(".bin")
        ('net.param', 'net.bin')
    """

    __slots__ = ("suffix",)

    suffix: str

    def __new__(cls, name: str, *, suffix: str = "") -> FileName:  # noqa: D102 - see the class
        _check_suffix(suffix)
        _check_name(name, suffix)
        self = super().__new__(cls, name if name.endswith(suffix) else name + suffix)
        self.suffix = suffix or PurePosixPath(name).suffix
        return self

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self.removesuffix(self.suffix)

    def sibling(self, suffix: str) -> FileName:
        """Return the name of the file in the same folder that differs in its suffix.

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
            hint="give the folder as --work-dir",
        )
    if name in {"", ".", "..", suffix} or "\0" in name:
        raise ParamsError(f"{name!r} is not a file name: expected a name like 'model{suffix}'")


def _has_separator(name: str) -> bool:
    # Both kinds on every system: an artifact is copied between them.
    return "/" in name or "\\" in name
