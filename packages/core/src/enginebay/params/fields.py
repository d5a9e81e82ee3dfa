"""Fields of a params class: their types, defaults and documentation, and the check of values."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from inspect import cleandoc, formatannotation
from pathlib import PurePath
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from enginebay.errors import ParamsError, did_you_mean
from enginebay.params.file_names import FileName
from enginebay.params.shapes import Shapes, check_shapes, parse_shapes

#: Such as "Expected `int`, got `str` - at `$.threads`", without the backquotes.
_MSGSPEC_MESSAGE = re.compile(
    r"Expected (?P<wanted>.*?)(?:, got (?P<found>.*?))?(?: - at (?P<path>.*))?"
)
_SECTION = re.compile(r"(?:Args|Arguments|Attributes):\s*")
#: ``name: help`` or ``name (type): help``.
_FIELD = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:\(.*?\))?\s*:(?:\s+(?P<help>.*))?")


class Field(msgspec.Struct, frozen=True):
    """One field of a params class.

    Attributes:
        owner: The name of the params class.
        name: The field's name.
        type: The field's type, without ``| None``.
        optional: True if None is a valid value.
        required: True if the field has no default.
        default: The field's default; None for a required field.
    """

    owner: str
    name: str
    type: Any
    optional: bool
    required: bool
    default: Any

    @property
    def choices(self) -> tuple[object, ...]:
        """The values of a ``Literal`` or an ``Enum``; empty for any other type."""
        if get_origin(self.type) is Literal:
            return get_args(self.type)
        if isinstance(self.type, type) and issubclass(self.type, Enum):
            return tuple(member.value for member in self.type)
        return ()

    def value_from(self, arguments: Mapping[str, object]) -> object:
        """Return the field's checked value from the constructor's arguments, or the default.

        Raises:
            ParamsError: The value is missing, or does not fit the type.
        """
        value = arguments.get(self.name, self.default)
        if value is None and not self.optional:
            value = self.default
        if value is None and self.required and not (self.optional and self.name in arguments):
            raise ParamsError(f"{self.owner} requires {self.name!r}: expected {self.describe()}")
        return None if value is None else self.convert(value)

    def convert(self, value: object, *, typed: str | None = None) -> Any:
        """Convert a value to the field's type.

        Args:
            value: The value to convert.
            typed: The command-line text from which ``value`` was parsed; None for a value from
                Python. Messages show this text. If it is passed, a text is accepted for a number or
                a bool.

        Raises:
            ParamsError: The value does not fit the type.
        """
        shown = _format_value(value if typed is None else typed)
        misfit = f"{shown} does not fit {self.owner}.{self.name}"
        try:
            return self._convert(value, strict=typed is None)
        except ParamsError as error:
            raise ParamsError(f"{misfit}: {error}", hint=error.hint) from error
        except msgspec.ValidationError as error:
            expected = self._expectation(str(error), value, typed=typed is not None)
            hint = did_you_mean(str(value), map(str, self.choices))
            raise ParamsError(f"{misfit}: {expected}", hint=hint) from error
        except TypeError as error:
            raise ParamsError(
                f"{self.owner}.{self.name} is declared as {self.describe()}, "
                f"which cannot be checked: {error}"
            ) from error

    def _convert(self, value: object, *, strict: bool) -> object:
        if self.type is FileName and isinstance(value, str):
            known = isinstance(self.default, FileName)
            default = self.default if known else FileName(self.default or value)
            return FileName(value, suffix=default.suffix, siblings=default.siblings)
        if self.type == Shapes:
            return _convert_shapes(value)
        if isinstance(value, PurePath):
            value = str(value)
        # JSON and TOML have only text keys.
        return msgspec.convert(value, self.type, strict=strict, str_keys=True, dec_hook=_decode)

    def _expectation(self, message: str, value: object, *, typed: bool) -> str:
        """Convert msgspec's error message to a text with the expected and the found type."""
        if self.choices:
            return "expected one of " + ", ".join(map(repr, self.choices))
        found = f", found {type(value).__name__}"
        if self.type == Shapes:
            return f"expected text like 'x:1x3' or a mapping of names to lists of numbers{found}"
        match = _MSGSPEC_MESSAGE.fullmatch(message.replace("`", ""))
        if match is None:
            return f"expected {self.describe()}{found}"
        path = re.sub(r"\$| in \$", "", match["path"] or "")
        # Everything on a command line is text, so "found str" would not help.
        found = f", found {match['found']}" if match["found"] and not typed else ""
        return "expected " + _use_python_names(match["wanted"] + (path and f" at {path}") + found)

    def describe(self) -> str:
        """Return the field's type as text, as in an annotation."""
        # Before Python 3.14, a union with a Literal is written otherwise than one of types alone.
        parts = get_args(self.type) if get_origin(self.type) is Union else (self.type,)
        names = ("None" if part is type(None) else formatannotation(part) for part in parts)
        text = " | ".join(names)
        return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text)


# Cached: evaluating the annotations takes much longer than creating an instance.
@cache
def declared_fields(owner: type[msgspec.Struct]) -> dict[str, Field]:
    """Return every field of a params class by name, in the order of declaration.

    Raises:
        ParamsError: An annotation uses a name that is not defined at run time.
    """
    try:
        declared = msgspec.structs.fields(owner)
    except NameError as error:
        raise ParamsError(
            f"the annotations of {owner.__name__} cannot be read: {error}",
            hint="import the name outside `if TYPE_CHECKING:`",
        ) from error
    return {field.name: _field(owner.__name__, field) for field in declared}


def read_fields(docstring: str) -> dict[str, str]:
    """Return field → help text, from the ``Args:`` and ``Attributes:`` sections of a docstring.

    Types in parentheses are left out, and the lines of a text are joined.

    Example:
        >>> read_fields('''What it is.
        ...
        ... Args:
        ...     threads (int): How many threads
        ...         to use.
        ... ''')
        {'threads': 'How many threads to use.'}
    """
    fields: dict[str, list[str]] = {}
    help_lines: list[str] = []
    for line in _section_lines(docstring):
        match = _FIELD.fullmatch(line)
        if match:
            help_lines = fields.setdefault(match["name"], [])
            line = match["help"] or ""
        help_lines.append(line.strip())
    return {name: _join(lines) for name, lines in fields.items()}


def _section_lines(docstring: str) -> list[str]:
    """Return the lines of the sections ``Args`` and ``Attributes``, dedented by one level."""
    lines: list[str] = []
    inside, indent = False, 0
    for line in cleandoc(docstring).splitlines():
        depth = len(line) - len(line.lstrip())
        if line and not depth:
            inside, indent = bool(_SECTION.fullmatch(line)), 0
        elif line and inside:
            indent = indent or depth
            lines.append(line[min(indent, depth) :])
    return lines


def _join(lines: list[str]) -> str:
    # Double backquotes are for the documentation; a terminal shows them as noise.
    return " ".join(" ".join(lines).replace("``", "").split())


def to_plain(value: object) -> object:
    """Convert a value to dicts, lists, tuples, texts and numbers.

    Raises:
        TypeError: A part of the value cannot be converted.
    """
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_encode)


def _field(owner: str, info: msgspec.structs.FieldInfo) -> Field:
    required = info.default is info.default_factory is msgspec.NODEFAULT
    default = None if required else info.default
    if info.default_factory is not msgspec.NODEFAULT:
        default = info.default_factory()
    type_, optional = _without_none(info.type)
    return Field(owner, info.name, type_, optional, required, default)


def _without_none(type_: object) -> tuple[object, bool]:
    if get_origin(type_) not in {Union, types.UnionType}:
        return type_, False
    rest = tuple(arg for arg in get_args(type_) if arg is not types.NoneType)
    return Union[rest], len(rest) < len(get_args(type_))  # noqa: UP007 - built from a tuple


def _format_value(value: object) -> str:
    text = " ".join(repr(value).splitlines())
    # The value may be a whole data set.
    return text if len(text) <= 200 else text[:199] + "…"


def _use_python_names(words: str) -> str:
    # msgspec calls types as JSON does: array and object.
    return re.sub(r"\bobject\b", "dict", re.sub(r"\barray\b", "list", words))


def _convert_shapes(value: object) -> Shapes:
    if isinstance(value, str):
        return parse_shapes(value)
    if isinstance(value, Mapping):
        # msgspec does not accept a subclass of tuple, such as torch.Size.
        value = {name: tuple(d) if isinstance(d, tuple) else d for name, d in value.items()}
    shapes: Shapes = msgspec.convert(value, Shapes)
    check_shapes(shapes)
    return shapes


def _decode(type_: type, value: object) -> object:
    if isinstance(value, type_):
        return value
    if issubclass(type_, FileName | PurePath) and isinstance(value, str):
        return type_(value)
    raise TypeError(f"Expected `{type_.__name__}`, got `{type(value).__name__}`")


def _encode(value: object) -> str:
    if isinstance(value, FileName | PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be converted to a JSON value")
