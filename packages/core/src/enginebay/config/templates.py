"""Templates in ``.py`` configs: ``{{fileDirname}}``, ``{{_base_.x}}`` and ``{{$NAME:default}}``.

Python parses a template outside of a string literal as a set that contains a set.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from enginebay.config.locations import LocatedDict, error_at
from enginebay.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from enginebay.config.locations import Location


def _compile_template(opening: str, closing: str) -> re.Pattern[str]:
    # Possessive quantifiers (*+, ++) never backtrack: a hostile text takes linear time.
    blank = r"[ \t]*+"
    return re.compile(
        rf"{opening}{blank}(?P<quote>['\"]?+){blank}(?:"
        r"(?P<file>fileDirname|fileBasenameNoExtension|fileBasename|fileExtname)"
        r"|_base_\.(?P<base>\w++(?:\.\w++)*+)"
        rf"|\$(?P<variable>\w++){blank}:{blank}(?P<default>[^\s'\"{{}}]*+)"
        rf"){blank}(?P=quote){blank}{closing}"
    )


TEMPLATE = _compile_template(r"\{\{", r"\}\}")
IN_F_STRING = _compile_template(r"\{", r"\}")  # in an f-string, Python reads two braces as one

_WORDS = {"True": True, "False": False, "None": None}
_INT = re.compile("[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_LONGEST_NUMBER = 64  # characters


class Templates:
    """Evaluates the templates of one config file.

    Args:
        path: The path of the config file, for ``{{fileDirname}}`` and similar templates.
        environment: The environment variables that the file may read; None to allow none.

    Attributes:
        base: The merged contents of the bases (the files that this file inherits from). They are
            set after the bases have been read.
        used: The top-level keys that this file reads from its bases: ``x`` for ``{{_base_.x.y}}``.
    """

    def __init__(self, path: Path, environment: Mapping[str, str] | None) -> None:
        self._path = path
        self._environment = environment
        self.base = LocatedDict()
        self.used: set[str] = set()

    def evaluate(self, template: re.Match[str], location: Location) -> object:
        """Return the value of a template that stands alone, not inside a longer string.

        An environment variable whose text is the literal of a number, bool or None is converted.

        Raises:
            ConfigError: The base does not define the name, or environment variables are forbidden.
        """
        if template["base"]:
            return self.look_up(template["base"].split("."), location)
        text = self._evaluate_as_text(template, location)
        return _parse_literal(text) if template["variable"] else text

    def fill(self, text: str, location: Location, pattern: re.Pattern[str] = TEMPLATE) -> object:
        """Replace the templates in a string.

        Returns:
            The new string. If the whole string is one template ``{{_base_.x}}``, the value of ``x``
            in the bases, which may have any type.

        Raises:
            ConfigError: A template cannot be evaluated, or a template inside a longer string has a
                value that is not a string.
        """
        whole = TEMPLATE.fullmatch(text)
        if whole and whole["base"]:
            return self.evaluate(whole, location)
        return pattern.sub(lambda match: self._evaluate_as_text(match, location), text)

    def look_up(self, keys: list[str], location: Location) -> object:
        """Return the value of ``_base_.a.b`` for the keys ``["a", "b"]``.

        Raises:
            ConfigError: The key does not exist.
        """
        self.used.add(keys[0])
        value, so_far = self.base, "_base_"
        for key in keys:
            if not isinstance(value, dict) or key not in value:
                guess = nearest(key, map(str, value)) if isinstance(value, dict) else None
                raise error_at(
                    location,
                    f"'{so_far}' has no key '{key}'",
                    hint=f"did you mean '{so_far}.{guess}'?" if guess else None,
                )
            value, so_far = value[key], f"{so_far}.{key}"
        return value

    def _evaluate_as_text(self, template: re.Match[str], location: Location) -> str:
        if template["variable"]:
            return self._read_variable(template, location)
        if template["file"]:
            return {
                "fileDirname": self._path.parent.as_posix(),
                "fileBasename": self._path.name,
                "fileBasenameNoExtension": self._path.stem,
                "fileExtname": self._path.suffix,
            }[template["file"]]
        value = self.evaluate(template, location)
        if isinstance(value, str):
            return value
        raise error_at(
            location,
            f"expected a text for {template[0]} inside a text, found a {type(value).__name__}",
        )

    def _read_variable(self, template: re.Match[str], location: Location) -> str:
        name = template["variable"]
        if self._environment is None:
            raise error_at(
                location,
                f"{template[0]} reads the environment variable '{name}', which is not allowed here",
                hint="to allow the file to read your environment variables, pass --allow-env",
            )
        value = self._environment.get(name, template["default"])
        if not value:
            raise error_at(
                location,
                f"{template[0]} has no default, and the environment variable '{name}' is not set",
                hint=f"export {name}=…, or write {{{{${name}:default}}}}",
            )
        return value


def _parse_literal(text: str) -> object:
    """Convert the literal of a number, bool or None; return any other text unchanged."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _LONGEST_NUMBER:
        return text
    return int(text) if _INT.fullmatch(text) else float(text) if _FLOAT.fullmatch(text) else text
