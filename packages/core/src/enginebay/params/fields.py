"""One declared field: its type, its default, and the check of a value against both."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from inspect import formatannotation
from pathlib import PurePath
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from enginebay.errors import ParamsError, nearest
from enginebay.params.file_names import FileName
from enginebay.params.shapes import Shapes, check_shapes, parse_shapes

_MSGSPEC_MESSAGE = re.compile(
    r"Expected (?P<wanted>.*?)(?:, got (?P<found>.*?))?(?: - at (?P<place>.*))?"
)


class Field(msgspec.Struct, frozen=True):
    """One field of a params class.

    Attributes:
        owner: The name of the class that is asked.
        name: The field's name.
        type: Its type, without ``| None``.
        optional: Whether None is one of its values.
        required: Whether it has no default.
        default: What it is where nothing is given; None for a required field.
    """

    owner: str
    name: str
    type: Any
    optional: bool
    required: bool
    default: Any

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values of a ``Literal`` or an ``Enum``; empty for any other type."""
        if get_origin(self.type) is Literal:
            return get_args(self.type)
        if isinstance(self.type, type) and issubclass(self.type, Enum):
            return tuple(member.value for member in self.type)
        return ()

    def settle(self, given: Mapping[str, Any]) -> Any:
        """The field's value among the given ones; its default for None, where that is no value.

        Raises:
            ParamsError: It is missing, or it does not fit the type.
        """
        value = given.get(self.name, self.default)
        if value is None and not self.optional:
            value = self.default
        if value is None and self.required and not (self.optional and self.name in given):
            raise ParamsError(f"{self.owner} needs {self.name!r}: wanted {self.describe()}")
        return None if value is None else self.convert(value)

    def convert(self, value: Any, *, typed: str | None = None) -> Any:
        """``value`` as the field's type.

        Args:
            value: What was given.
            typed: The text that ``value`` was read from on a command line; with it numbers and
                bools may be text, and messages show it.

        Raises:
            ParamsError: It does not fit the type.
        """
        misfit = (
            f"{_shown(value if typed is None else typed)} does not fit {self.owner}.{self.name}"
        )
        try:
            return self._convert(value, strict=typed is None)
        except ParamsError as error:
            raise ParamsError(f"{misfit}: {error}", hint=error.hint) from error
        except msgspec.ValidationError as error:
            wanted = self._expectation(str(error), value, typed=typed is not None)
            guess = nearest(str(value), map(str, self.choices))
            hint = f"did you mean {guess!r}?" if guess else None
            raise ParamsError(f"{misfit}: {wanted}", hint=hint) from error
        except TypeError as error:
            raise ParamsError(
                f"{self.owner}.{self.name} is declared as {self.describe()}, "
                f"which cannot be checked: {error}"
            ) from error

    def _convert(self, value: Any, *, strict: bool) -> Any:
        if self.type is FileName and isinstance(value, str):
            suffix = FileName(self.default).suffix if self.default else ""
            return FileName(value, suffix=suffix)
        if self.type == Shapes:
            return _convert_shapes(value)
        if isinstance(value, PurePath):
            value = str(value)
        return msgspec.convert(value, self.type, strict=strict, str_keys=True, dec_hook=_decode)

    def _expectation(self, message: str, value: Any, *, typed: bool) -> str:
        """What msgspec's message says was wanted, and found, in Python's words."""
        if self.choices:
            return "wanted one of " + ", ".join(map(repr, self.choices))
        found = f", found {type(value).__name__}"
        if self.type == Shapes:
            return f"wanted text like 'x:1x3' or a mapping of names to lists of numbers{found}"
        match = _MSGSPEC_MESSAGE.fullmatch(message.replace("`", ""))
        if match is None:
            return f"wanted {self.describe()}{found}"
        place = re.sub(r"\$| in \$", "", match["place"] or "")
        # Everything on a command line is text: to say that it was found helps nobody.
        found = f", found {match['found']}" if match["found"] and not typed else ""
        return "wanted " + _in_python(match["wanted"] + (place and f" at {place}") + found)

    def describe(self) -> str:
        """The type in the words of a declaration."""
        return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", formatannotation(self.type))


@cache
def declared_fields(owner: type[msgspec.Struct]) -> dict[str, Field]:
    """Every field of a params class by name, in the order of declaration.

    Raises:
        ParamsError: An annotation names something that cannot be found at run time.
    """
    try:
        declared = msgspec.structs.fields(owner)
    except NameError as error:
        raise ParamsError(
            f"the annotations of {owner.__name__} cannot be read: {error}",
            hint="import the name outside `if TYPE_CHECKING:`",
        ) from error
    return {field.name: _field(owner.__name__, field) for field in declared}


def to_plain(value: Any) -> Any:
    """``value`` in terms of dicts, lists, tuples, texts and numbers.

    Raises:
        TypeError: It holds something that has no such form.
    """
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_encode)


def _field(owner: str, info: msgspec.structs.FieldInfo) -> Field:
    required = info.default is info.default_factory is msgspec.NODEFAULT
    default = None if required else info.default
    if info.default_factory is not msgspec.NODEFAULT:
        default = info.default_factory()
    type_, optional = _without_none(info.type)
    return Field(owner, info.name, type_, optional, required, default)


def _without_none(type_: Any) -> tuple[Any, bool]:
    if get_origin(type_) not in {Union, types.UnionType}:
        return type_, False
    rest = tuple(arg for arg in get_args(type_) if arg is not types.NoneType)
    return Union[rest], len(rest) < len(get_args(type_))  # noqa: UP007 - built from a tuple


def _shown(value: Any) -> str:
    """The value on one line, cut where it is long: it may be somebody's whole data set."""
    text = " ".join(repr(value).splitlines())
    return text if len(text) <= 200 else text[:199] + "…"


def _in_python(words: str) -> str:
    """Translate: msgspec speaks of arrays and objects, as JSON does."""
    return re.sub(r"\bobject\b", "dict", re.sub(r"\barray\b", "list", words))


def _convert_shapes(value: Any) -> Any:
    if isinstance(value, str):
        return parse_shapes(value)
    if isinstance(value, Mapping):
        # A framework's own kind of tuple (torch.Size) is one too.
        value = {name: tuple(d) if isinstance(d, tuple) else d for name, d in value.items()}
    shapes = msgspec.convert(value, Shapes)
    check_shapes(shapes)
    return shapes


def _decode(type_: type, value: Any) -> Any:
    if isinstance(value, type_):
        return value
    if issubclass(type_, FileName | PurePath) and isinstance(value, str):
        return type_(value)
    raise TypeError(f"Expected `{type_.__name__}`, got `{type(value).__name__}`")


def _encode(value: Any) -> str:
    if isinstance(value, FileName | PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no plain form")
