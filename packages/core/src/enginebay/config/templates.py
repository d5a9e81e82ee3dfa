"""``{{fileDirname}}``, ``{{_base_.x}}`` and ``{{$NAME:default}}`` in ``.py`` configs.

In a text they are braces; outside one, Python parses them as a set with a set in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from enginebay.config.places import Table, error_at
from enginebay.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from enginebay.config.places import Place


def _pattern(opening: str, closing: str) -> re.Pattern[str]:
    blank = r"[ \t]*+"
    return re.compile(
        rf"{opening}{blank}(?P<quote>['\"]?+){blank}(?:"
        r"(?P<file>fileDirname|fileBasenameNoExtension|fileBasename|fileExtname)"
        r"|_base_\.(?P<base>\w++(?:\.\w++)*+)"
        rf"|\$(?P<variable>\w++){blank}:{blank}(?P<default>[^\s'\"{{}}]*+)"
        rf"){blank}(?P=quote){blank}{closing}"
    )


TEMPLATE = _pattern(r"\{\{", r"\}\}")
IN_F_STRING = _pattern(r"\{", r"\}")  # Python has read each two braces as one

_WORDS = {"True": True, "False": False, "None": None}
_INT = re.compile("[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_LONGEST_NUMBER = 64  # characters


class Templates:
    """The values of one file's templates.

    Args:
        path: The file.
        environment: The environment variables that the file may read; None for none.

    Attributes:
        base: The values that ``{{_base_.x}}`` looks up; filled in once the bases are known.
        used: The top-level names of the base that the file refers to.
    """

    def __init__(self, path: Path, environment: Mapping[str, str] | None) -> None:
        self._path = path
        self._environment = environment
        self.base = Table()
        self.used: set[str] = set()

    def value(self, template: re.Match[str], place: Place) -> Any:
        """The value of a template outside a text: a variable may be a number.

        Raises:
            ConfigError: The base has no such name, or the environment may not be read.
        """
        if template["base"]:
            return self.look_up(template["base"].split("."), place)
        text = self._text(template, place)
        return _literal(text) if template["variable"] else text

    def fill(self, text: str, place: Place, pattern: re.Pattern[str] = TEMPLATE) -> Any:
        """A text with the templates in it replaced.

        Returns:
            The text; the value itself if the text is one ``{{_base_.x}}``.

        Raises:
            ConfigError: As :meth:`value`, or a value that is not a text stands inside the text.
        """
        whole = TEMPLATE.fullmatch(text)
        if whole and whole["base"]:
            return self.value(whole, place)
        return pattern.sub(lambda match: self._text(match, place), text)

    def look_up(self, keys: list[str], place: Place) -> Any:
        """The value of ``_base_.a.b``.

        Raises:
            ConfigError: There is no such key.
        """
        self.used.add(keys[0])
        value, so_far = self.base, "_base_"
        for key in keys:
            if not isinstance(value, dict) or key not in value:
                guess = nearest(key, map(str, value)) if isinstance(value, dict) else None
                raise error_at(
                    place,
                    f"there is no '{key}' in '{so_far}'",
                    hint=f"did you mean '{so_far}.{guess}'?" if guess else None,
                )
            value, so_far = value[key], f"{so_far}.{key}"
        return value

    def _text(self, template: re.Match[str], place: Place) -> str:
        if template["variable"]:
            return self._variable(template, place)
        if template["file"]:
            return {
                "fileDirname": self._path.parent.as_posix(),
                "fileBasename": self._path.name,
                "fileBasenameNoExtension": self._path.stem,
                "fileExtname": self._path.suffix,
            }[template["file"]]
        value = self.value(template, place)
        if isinstance(value, str):
            return value
        raise error_at(
            place,
            f"{template[0]} is a {type(value).__name__} and stands inside a text: "
            "only a text can be put there",
        )

    def _variable(self, template: re.Match[str], place: Place) -> str:
        name = template["variable"]
        if self._environment is None:
            raise error_at(
                place,
                f"{template[0]} reads the environment variable '{name}', which is not allowed here",
                hint="pass --allow-env if you trust the file with it",
            )
        value = self._environment.get(name, template["default"])
        if not value:
            raise error_at(
                place,
                f"{template[0]} has no default, and the environment variable '{name}' is not set",
                hint=f"export {name}=…, or write {{{{${name}:default}}}}",
            )
        return value


def _literal(text: str) -> Any:
    """The number, bool or None that a text spells; else the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _LONGEST_NUMBER:
        return text
    return int(text) if _INT.fullmatch(text) else float(text) if _FLOAT.fullmatch(text) else text
