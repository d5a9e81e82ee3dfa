"""Add command-line flags for the documented fields of a params class.

This module is imported only when flags are added: other programs do not need argparse.
"""

from __future__ import annotations

import argparse
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from enginebay.errors import ParamsError
from enginebay.params.file_names import FileName
from enginebay.params.shapes import Shapes

if TYPE_CHECKING:
    from enginebay.params.fields import Field


def add_flags(parser: argparse._ActionsContainer, documented: Iterable[tuple[Field, str]]) -> None:
    """Add a flag for each field.

    Args:
        parser: A parser, or one of its argument groups.
        documented: Pairs of a field and its help text.

    Raises:
        ParamsError: The parser already has a flag or a destination with a field's name. Then no
            flag is added.
    """
    pairs = list(documented)
    # All fields are checked first, so that an error adds no flag.
    for field, _ in pairs:
        _check_free(parser, field)
    for field, text in pairs:
        parser.add_argument(
            _flag(field),
            required=field.required,
            # argparse formats the help with %.
            help=(text + _default_text(field)).strip().replace("%", "%%"),
            **_options(field),
        )


def _flag(field: Field) -> str:
    return "--" + field.name.replace("_", "-")


def _check_free(parser: argparse._ActionsContainer, field: Field) -> None:
    flags = {_flag(field)}
    if field.type is bool:
        flags.add("--no-" + _flag(field)[2:])
    for action in parser._actions:
        taken = flags.intersection(action.option_strings)
        if taken or action.dest == field.name:
            raise ParamsError(
                f"{field.owner}.{field.name} cannot become the flag {_flag(field)}: "
                f"the parser already has {_describe(action, taken)}",
                hint=f"rename the field, or leave it out of {field.owner}'s docstring",
            )


def _describe(action: argparse.Action, taken: set[str]) -> str:
    return " and ".join(sorted(taken)) or "/".join(action.option_strings) or repr(action.dest)


def _default_text(field: Field) -> str:
    default = field.default.value if isinstance(field.default, Enum) else field.default
    # A file name's suffix depends on other parameters.
    if isinstance(default, FileName) or field.type is FileName or default in (None, "", (), {}):
        return ""
    if isinstance(default, bool):
        default = "yes" if default else "no"
    if isinstance(default, tuple):
        default = ",".join(map(str, default))
    return f" (default: {default})"


def _options(field: Field) -> dict[str, Any]:
    if field.type is bool:
        return {"action": argparse.BooleanOptionalAction}
    if field.choices:
        return {"choices": field.choices, "type": _choice(field)}
    if field.type == Shapes:
        return {"type": _reader(field), "metavar": "NAME:1x3x..."}
    if _is_union(field.type) and _is_scalar(field.type):
        return {"type": _reader(field, _member_reader(field.type))}
    if _is_scalar(field.type):
        return {"type": _reader(field)}
    if _is_list(field.type):
        # A tuple of fixed length is one value: a repeated flag replaces it, and appends no items.
        collected = {} if _is_fixed_tuple(field.type) else {"action": _Collect}
        return {"type": _reader(field, _split_list), "metavar": "A,B,...", **collected}
    if _is_table(field.type):
        return {"action": _Collect, **_table_options(field)}
    return {"type": _reader(field, _decode_json), "metavar": "JSON"}


def _is_union(type_: object) -> bool:
    return get_origin(type_) in {Union, types.UnionType}


def _is_scalar(type_: object) -> bool:
    if type_ is Any:  # the reader of the field decides how a text is parsed
        return True
    if get_origin(type_) is Annotated:
        return _is_scalar(get_args(type_)[0])
    if _is_union(type_):
        return all(map(_is_scalar, get_args(type_)))
    if get_origin(type_) is Literal:
        return all(isinstance(choice, str) for choice in get_args(type_))
    return isinstance(type_, type) and issubclass(type_, str | int | float | PurePath)


def _is_list(type_: object) -> bool:
    items = [item for item in get_args(type_) if item is not ...]
    return get_origin(type_) in {tuple, list, set, frozenset, Sequence} and all(
        map(_is_scalar, items)
    )


def _is_fixed_tuple(type_: object) -> bool:
    return get_origin(type_) is tuple and ... not in get_args(type_)


def _is_table(type_: object) -> bool:
    if get_origin(type_) not in {dict, Mapping}:
        return False
    key, value = get_args(type_)
    return key in {str, Any} and (_is_scalar(value) or _is_list(value))


def _table_options(field: Field) -> dict[str, Any]:
    _, value = get_args(field.type)
    split: Callable[[str], object] = _split_list if _is_list(value) else str
    words = "VALUE" if split is str else "A,B" if _is_fixed_tuple(value) else "A,B,..."

    def entry(text: str) -> dict[str, object]:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ParamsError(f"{text!r} is not a valid entry: expected KEY={words}")
        return {key: split(value)}

    return {"type": _reader(field, entry), "metavar": f"KEY={words}"}


def _choice(field: Field) -> Callable[[str], object]:
    by_text = {str(choice): choice for choice in field.choices}
    # argparse itself rejects an unknown choice, and lists the choices.
    return lambda text: by_text.get(text, text)


def _reader(field: Field, parse: Callable[[str], object] = str) -> Callable[[str], object]:
    """Return a function that converts a text to a field's value, for argparse's ``type``."""

    def read(text: str) -> object:
        try:
            return field.convert(parse(text), typed=text)
        except ParamsError as error:
            message = f"{error} ({error.hint})" if error.hint else str(error)
            raise argparse.ArgumentTypeError(message) from error

    return read


def _member_reader(union: object) -> Callable[[str], object]:
    # A text is the last choice: msgspec alone would keep `4` as a text for `int | str`.
    members = [member for member in get_args(union) if member is not str]

    def read(text: str) -> object:
        for member in members:
            with suppress(msgspec.ValidationError):
                return msgspec.convert(text, member, strict=False)
        return text

    return read


def _split_list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _decode_json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ParamsError(f"{text!r} is not JSON: {error}") from error


class _Collect(argparse.Action):
    """An argparse action for a repeatable flag: joins the lists or dicts of all occurrences."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse passes it
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,  # noqa: ARG002 - argparse passes it
    ) -> None:
        before = getattr(namespace, self.dest) or {}
        if not isinstance(values, dict):
            setattr(namespace, self.dest, [*before, *values])
            return
        for key in values.keys() & before.keys():
            raise argparse.ArgumentError(self, f"{key!r} is specified twice")
        setattr(namespace, self.dest, before | values)
