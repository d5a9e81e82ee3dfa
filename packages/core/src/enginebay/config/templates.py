"""``{{fileDirname}}``, ``{{_base_.x}}`` and ``{{$NAME:default}}`` in the text of a config.

They may stand where the format allows no such thing, so they are hidden before the text is
parsed: each becomes an identifier of the same length, which every format takes as a text or a
name, and which keeps the places of everything around it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from enginebay.config.places import wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.config.places import Place, Source, Table

_BLANK = r"[ \t]*"
_TEMPLATE = re.compile(
    rf"\{{\{{{_BLANK}(?P<quote>['\"]?){_BLANK}(?:"
    r"(?P<file>fileDirname|fileBasenameNoExtension|fileBasename|fileExtname)"
    r"|_base_\.(?P<base>\w+(?:\.\w+)*)"
    rf"|\$(?P<variable>\w+){_BLANK}:{_BLANK}(?P<default>[^\s'\"{{}}]*)"
    rf"){_BLANK}(?P=quote){_BLANK}\}}\}}"
)
#: Letters in the eyes of Python and YAML that no config is written in: Egyptian hieroglyphs.
_MARKERS = range(0x13000, 0x13100)


class Templates:
    """The templates of one file.

    Attributes:
        text: The file's text with an identifier in the place of each of them.
        base: What ``{{_base_.x}}`` is looked up in; filled once the bases are known.
        used: The top-level names of the base that were asked for.
    """

    def __init__(
        self,
        source: Source,
        environment: Mapping[str, str] | None,
        literal: Callable[[str], Any],
    ) -> None:
        self._source = source
        self._environment = environment
        self._literal = literal
        free = (char for char in map(chr, _MARKERS) if char not in source.text)
        self._marker, self._filler = next(free), next(free)
        self._found: list[re.Match[str]] = []
        self._pattern = re.compile(f"{self._marker}([0-9]+){self._filler}+")
        self.base: Table | None = None
        self.used: set[str] = set()
        self.text = _TEMPLATE.sub(self._hide, source.text) if "{{" in source.text else source.text

    def _hide(self, match: re.Match[str]) -> str:
        number = len(self._found)
        self._found.append(match)
        width = len(match[0])
        name = f"{self._marker}{number}{self._filler}"
        if len(name) > width:
            raise wrong(self._source.at_offset(match.start()), "there are too many templates")
        return name.ljust(width, self._filler)

    def are_in(self, text: str) -> bool:
        """Whether a parsed text holds any."""
        return self._marker in text

    def is_one(self, text: str) -> bool:
        """Whether the text is one template and nothing else."""
        return self._marker in text and bool(self._pattern.fullmatch(text))

    def as_bare(self, text: str) -> str:
        """A text that stood outside quotes, noted as such if it is a template."""
        return self._marker + text if self.is_one(text) else text

    def outside_texts(self, string: str) -> str:
        """The hidden text with quotes around each template that stands outside every text.

        Args:
            string: The regular expression of a text in quotes.
        """
        if not self._found:
            return self.text
        pattern = re.compile(f"{string}|(?P<bare>{self._pattern.pattern})", re.DOTALL)
        return pattern.sub(lambda m: f'"{self._marker}{m[0]}"' if m["bare"] else m[0], self.text)

    def fill(self, text: str, place: Place | None, *, bare: bool = False) -> Any:
        """A text with the templates in it replaced.

        Args:
            text: A text, as it was parsed.
            place: Where it stands.
            bare: Whether it stands outside quotes: ``{{$N:80}}`` is a number then.

        Returns:
            The text; the value itself where the text is one template that is not a text.

        Raises:
            ConfigError: The base has no such name, or the environment may not be asked.
        """
        if self._marker not in text:
            return text
        if text.startswith(self._marker * 2):
            text, bare = text[1:], True
        if match := self._pattern.fullmatch(text):
            return self._value(self._found[int(match[1])], place, bare=bare)
        return self._pattern.sub(lambda m: self._text(self._found[int(m[1])], place), text)

    def _value(self, found: re.Match[str], place: Place | None, *, bare: bool) -> Any:
        if found["base"]:
            return self._from_base(found["base"], place)
        text = self._text(found, place)
        return self._literal(text) if found["variable"] and (bare or found["quote"]) else text

    def _text(self, found: re.Match[str], place: Place | None) -> str:
        if found["base"]:
            value = self._from_base(found["base"], place)
            if isinstance(value, str):
                return value
            raise wrong(
                place,
                f"{found[0]} is a {type(value).__name__} and stands inside a text: "
                "only a text can be put there",
            )
        if found["variable"]:
            return self._from_environment(found, place)
        path = self._source.path
        return {
            "fileDirname": path.parent.as_posix(),
            "fileBasename": path.name,
            "fileBasenameNoExtension": path.stem,
            "fileExtname": path.suffix,
        }[found["file"]]

    def _from_base(self, names: str, place: Place | None) -> Any:
        keys = names.split(".")
        self.used.add(keys[0])
        return look_up(self.base, keys, place)

    def _from_environment(self, found: re.Match[str], place: Place | None) -> str:
        name = found["variable"]
        if self._environment is None:
            raise wrong(
                place,
                f"{found[0]} asks for the environment variable '{name}', which is not allowed here",
                hint="pass --allow-env (environment=os.environ) if you trust the file with it",
            )
        value = self._environment.get(name, found["default"])
        if not value:
            raise wrong(
                place,
                f"{found[0]} has no default, and the environment variable '{name}' is not set",
                hint=f"export {name}=…, or write {{{{${name}:default}}}}",
            )
        return value


def look_up(base: Any, keys: list[str], place: Place | None) -> Any:
    """What ``_base_.a.b`` means.

    Raises:
        ConfigError: There is no such key.
    """
    from enginebay.errors import nearest

    value, so_far = base, "_base_"
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            known = [str(known) for known in value] if isinstance(value, dict) else []
            guess = nearest(key, known)
            raise wrong(
                place,
                f"there is no '{key}' in '{so_far}'",
                hint=f"did you mean '{so_far}.{guess}'?" if guess else None,
            )
        value, so_far = value[key], f"{so_far}.{key}"
    return value
