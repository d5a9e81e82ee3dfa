"""Base class of structs whose fields are checked in Python and become command-line flags."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec

from enginebay.errors import ParamsError, did_you_mean
from enginebay.params.fields import Field, declared_fields, read_fields, to_plain

if TYPE_CHECKING:
    import argparse


class _DeclaredMeta(msgspec.StructMeta):
    """Metaclass of frozen, keyword-only structs whose constructors check their arguments.

    msgspec's own constructor checks no types, and suggests no name for a misspelled field.
    """

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, object], **config: Any
    ) -> _DeclaredMeta:
        strict = {"frozen": True, "kw_only": True, "forbid_unknown_fields": True}
        made = super().__new__(mcls, name, bases, namespace, **strict | config)
        for field in getattr(made, "speed_values", ()):  # of BackendParams
            if field not in made.__struct_fields__:
                raise _unknown_field(name, field, made.__struct_fields__, "has speed_values of")
        return made

    def __call__(cls, *positional: object, **arguments: object) -> Any:
        if positional:
            raise ParamsError(
                f"{cls.__name__} takes keyword arguments only, found {positional[0]!r}"
            )
        fields = declared_fields(cls)
        for name in arguments:
            if name not in fields:
                raise _unknown_field(cls.__name__, name, fields)
        values = {name: field.value_from(arguments) for name, field in fields.items()}
        return super().__call__(**values)


class Declared(msgspec.Struct, metaclass=_DeclaredMeta):
    """Base class of options that are declared as annotated fields with a docstring.

    Values are checked when an instance is created: a list is accepted for a tuple, a path for a
    text, a text like ``x:1x3`` for shapes, and None for the default. Only the fields in the
    ``Args:`` or ``Attributes:`` section of a class become flags, in that order.

    Raises:
        ParamsError: A field is unknown, or a value is invalid.
    """

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Self:
        """Create params from a config's section, or from a result of :meth:`to_mapping`.

        Raises:
            ParamsError: The argument is not a mapping, or has an unknown key or an invalid value.
        """
        if not isinstance(mapping, Mapping):
            raise ParamsError(
                f"{mapping!r} cannot be converted to {cls.__name__}: expected a mapping from field "
                f"names to values, found {type(mapping).__name__}"
            )
        # A key of another type is thus reported as an unknown field.
        return cls(**{str(name): value for name, value in mapping.items()})

    @classmethod
    def of(cls, options: Self | Mapping[str, object] | None) -> Self:
        """Return the options as an instance: a mapping is checked, and None gives the defaults.

        Raises:
            ParamsError: The argument is neither options nor a mapping, or it has an unknown key or
                an invalid value.
        """
        if options is None:
            return cls()
        return options if isinstance(options, cls) else cls.from_mapping(cast("Any", options))

    def to_mapping(self) -> dict[str, Any]:
        """Return the fields by name, with values of JSON's types.

        An empty field is omitted if the default is empty as well. All other fields are included,
        so that a file has the same meaning after a default has changed.

        Raises:
            ParamsError: A value cannot be written as JSON.

        Example:
            >>> from enginebay import BackendParams
            >>> BackendParams().to_mapping()
            {'file_name': 'model', 'device': 'cpu'}
        """
        return {
            name: _plain(self, name)
            for name, field in declared_fields(type(self)).items()
            if not _is_empty(getattr(self, name)) or getattr(self, name) != field.default
        }

    def replace(self, **changes: object) -> Self:
        """Return a copy with new values for some fields, checked as in the constructor.

        Raises:
            ParamsError: A field is unknown, or a value is invalid.
        """
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return type(self)(**(values | changes))

    @classmethod
    def add_arguments(
        cls,
        parser: argparse._ActionsContainer,
        *,
        only: Collection[str] | None = None,
        skip: Collection[str] = (),
    ) -> None:
        """Add a flag for every documented field: ``work_dir`` becomes ``--work-dir``.

        The forms of the types on the command line:

        | type                       | on the command line             |
        |----------------------------|---------------------------------|
        | ``bool``                   | ``--fp16``, ``--no-fp16``       |
        | ``Literal``, ``Enum``      | one of the choices              |
        | ``int``, ``float``, ``str`` | as they are                    |
        | ``Shapes``                 | ``x:1x3,y:1x?``                 |
        | ``tuple[int, ...]``        | ``1,2,3``, or repeated          |
        | ``dict[str, str]``         | ``--option key=value``, repeated |
        | ``dict[str, tuple[int, int]]`` | ``--option key=1,2``, repeated |
        | ``Any``                    | text, as it is                  |
        | anything else              | JSON                            |

        In the namespace, a flag that was not passed is None; the constructor replaces None by the
        default.

        Args:
            parser: The parser, or one of its argument groups.
            only: Names of the fields that become flags; by default all documented fields.
            skip: Names of fields that get no flag.

        Raises:
            ParamsError: The parser already has one of the flags, or a documented field does not
                exist.
        """
        from enginebay.params.arguments import add_flags

        documented = _documented_fields(cls)
        names = {field.name for field, _ in documented} if only is None else only
        add_flags(parser, [pair for pair in documented if pair[0].name in {*names} - {*skip}])

    @classmethod
    def given_arguments(cls, namespace: argparse.Namespace) -> dict[str, Any]:
        """Return the values that were passed as flags, by field name."""
        values = {
            field.name: getattr(namespace, field.name, None) for field, _ in _documented_fields(cls)
        }
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_args(cls, namespace: argparse.Namespace, **overrides: object) -> Self:
        """Create params from the flags that were passed; ``overrides`` take precedence.

        Raises:
            ParamsError: A field is unknown, or a value is invalid.
        """
        return cls(**(cls.given_arguments(namespace) | overrides))


def _is_empty(value: object) -> bool:
    containers = (str, bytes, tuple, list, dict, set, frozenset)
    return value is None or (isinstance(value, containers) and not value)


def _plain(params: Declared, name: str) -> object:
    try:
        return to_plain(getattr(params, name))
    except TypeError as error:
        raise ParamsError(
            f"{type(params).__name__}.{name} cannot be written as JSON: {error}"
        ) from error


def _documented_fields(owner: type[Declared]) -> list[tuple[Field, str]]:
    fields = declared_fields(owner)
    pairs = []
    for name, text in _documentation(owner).items():
        if name in fields:
            pairs.append((fields[name], text))
        elif not hasattr(owner, name):  # a property may be documented too
            raise _unknown_field(owner.__name__, name, fields, "documents")
    return pairs


def _documentation(owner: type) -> dict[str, str]:
    """Return field → help text, from the docstrings of the class and its bases."""
    texts: dict[str, str] = {}
    for base in owner.__mro__:
        texts = read_fields(vars(base).get("__doc__") or "") | texts
        if "work_dir" in texts:  # a complete section
            break
    # The base's come first, with the texts of the subclass.
    return texts


def _unknown_field(
    owner: str, name: str, fields: Collection[str], verb: str = "got"
) -> ParamsError:
    return ParamsError(
        f"{owner} {verb} {name!r}, which is not one of its fields: {', '.join(fields)}",
        hint=did_you_mean(name, fields),
    )
