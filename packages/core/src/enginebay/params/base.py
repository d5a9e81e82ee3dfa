"""The class that every backend's parameters derive from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Self

import msgspec

from enginebay.errors import ParamsError, nearest
from enginebay.params.fields import Field, declared_fields, read_fields, to_plain
from enginebay.params.file_names import FileName
from enginebay.params.shapes import ShapeProfile, Shapes, resolve_profiles

if TYPE_CHECKING:
    import argparse


class ConfigKey(msgspec.Struct, frozen=True):
    """A key of ``backend_config`` besides the fields, for configs written for other tools.

    Attributes:
        type: The type of its value, as in an annotation.
        fields: Its meaning: a callable that takes the value and returns fields of the params. It
            raises :class:`~enginebay.errors.ParamsError` for a value that is not supported.
        no_effect: The reason why it does nothing here, for a note to the user.

    Example:
        >>> use_vulkan = ConfigKey(bool, lambda on: {"device": "vulkan"} if on else {})
        >>> use_vulkan.fields(True)
        {'device': 'vulkan'}
    """

    type: Any
    fields: Callable[[Any], Mapping[str, Any]] = lambda _value: {}
    no_effect: str = ""


class _ParamsMeta(msgspec.StructMeta):
    """Makes every params class frozen, keyword-only and strict, and checks what it is given.

    The check comes before msgspec's own constructor, which checks no types and suggests no name
    for a misspelled field.
    """

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any
    ) -> _ParamsMeta:
        strict = {"frozen": True, "kw_only": True, "forbid_unknown_fields": True}
        return super().__new__(mcls, name, bases, namespace, **strict | config)

    def __call__(cls, *positional: Any, **given: Any) -> Any:
        if positional:
            raise ParamsError(
                f"{cls.__name__} takes keyword arguments only, found {positional[0]!r}"
            )
        fields = declared_fields(cls)
        for name in given:
            if name not in fields:
                raise _unknown_field(cls.__name__, name, fields)
        values = {name: field.value_from(given) for name, field in fields.items()}
        params = super().__call__(**values)
        if params.input_shapes:
            params.shape_profiles()  # raises where the three kinds of shapes do not fit each other
        return params


class BackendParams(msgspec.Struct, metaclass=_ParamsMeta):
    """The parameters with which a backend converts or runs a model.

    A subclass adds fields with defaults and documents them; nothing else is needed. Values are
    checked when an instance is made: a list may stand for a tuple, a path for a text, a text like
    ``x:1x3`` for shapes, and None for "not given". Nothing else is converted.

    The fields in the ``Args:`` or ``Attributes:`` section of a class become flags, in that order,
    and no others: a subclass with such a section decides anew which of the fields it inherits are
    flags; one without it has the flags of its base.

    Attributes:
        work_dir: Folder of the artifact's files.
        file_name: Name of the artifact's main file.
        device: Device to run on: cpu, cuda, cuda:1, gpu, as the backend calls it.
        input_shapes: Shapes of the inputs, like input:1x3x224x224,mask:1x77.
        min_shapes: Smallest shapes, with ? where they are as in the main ones.
        max_shapes: Largest shapes, with ? where they are as in the main ones.

    Raises:
        ParamsError: A field is unknown, or a value does not fit.

    Example:
        >>> params = BackendParams(device="cuda:1", input_shapes="x:1x3")
        >>> params.input_shapes
        {'x': (1, 3)}
    """

    work_dir: str | None = None
    file_name: FileName = FileName("model")
    device: str = "cpu"
    input_shapes: Shapes = {}
    min_shapes: Shapes = {}
    max_shapes: Shapes = {}

    @property
    def operators(self) -> frozenset[str] | None:
        """The operators that the engine has in this form, where they depend on the parameters.

        As in ``BackendInfo.operators``, which holds where this is None.
        """
        return None

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Make params from a config's section or from what :meth:`to_mapping` wrote.

        Raises:
            ParamsError: It is not a mapping, a key is not a field, or a value does not fit.
        """
        if not isinstance(mapping, Mapping):
            raise ParamsError(
                f"{mapping!r} does not hold {cls.__name__}: wanted a mapping of field to value, "
                f"found {type(mapping).__name__}"
            )
        return cls(**{str(name): value for name, value in mapping.items()})

    def to_mapping(self) -> dict[str, Any]:
        """Return the fields as JSON has them, without those that are empty by default and now.

        Other defaults are written, so that a file keeps its meaning when a default changes.

        Raises:
            ParamsError: A value has no form in JSON.

        Example:
            >>> BackendParams().to_mapping()
            {'file_name': 'model', 'device': 'cpu'}
        """
        return {
            name: _plain(self, name)
            for name, field in declared_fields(type(self)).items()
            if not _is_empty(getattr(self, name)) or getattr(self, name) != field.default
        }

    def replace(self, **changes: Any) -> Self:
        """Copy the params with other values for some fields, checked like new ones.

        Raises:
            ParamsError: A field is unknown, or a value does not fit.
        """
        kept = {name: getattr(self, name) for name in self.__struct_fields__}
        return type(self)(**(kept | changes))

    @classmethod
    def add_arguments(
        cls, parser: argparse._ActionsContainer, *, skip: Collection[str] = ()
    ) -> None:
        """Add a flag for every documented field: ``work_dir`` becomes ``--work-dir``.

        How the types read on the command line:

        | type                       | on the command line             |
        |----------------------------|---------------------------------|
        | ``bool``                   | ``--fp16``, ``--no-fp16``       |
        | ``Literal``, ``Enum``      | one of the choices              |
        | ``int``, ``float``, ``str`` | as they are                    |
        | ``Shapes``                 | ``x:1x3,y:1x?``                 |
        | ``tuple[int, ...]``        | ``1,2,3``                       |
        | ``dict[str, str]``         | ``--option key=value``, repeated |
        | anything else              | JSON                            |

        A flag that is not given is None in the namespace, which the constructor takes as "the
        default".

        Args:
            parser: The parser, or one of its argument groups.
            skip: Fields for which the caller has flags of its own.

        Raises:
            ParamsError: The parser has such a flag already, or the docstring names no field.
        """
        from enginebay.params.arguments import add_flags

        add_flags(parser, [pair for pair in _documented(cls) if pair[0].name not in skip])

    @classmethod
    def given_arguments(cls, namespace: argparse.Namespace) -> dict[str, Any]:
        """Return the fields that were given as flags; they win over a config's section."""
        found = {field.name: getattr(namespace, field.name, None) for field, _ in _documented(cls)}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_args(cls, namespace: argparse.Namespace, **overrides: Any) -> Self:
        """Make params from the flags that were given; ``overrides`` win over them.

        Raises:
            ParamsError: A field is unknown, or a value does not fit.
        """
        return cls(**(cls.given_arguments(namespace) | overrides))

    @classmethod
    def config_keys(cls) -> Mapping[str, ConfigKey]:
        """Return more keys for ``backend_config`` than the fields; none by default.

        A backend overrides it so that configs for another tool kit keep working. A key
        inside another one is written with a dot. Where a field and such a key are both given,
        the field wins; of two such keys for one field, the one that is declared later::

            @classmethod
            def config_keys(cls):
                return {"common_config.fp16_mode": eb.ConfigKey(bool, lambda on: …)}
        """
        return {}

    @property
    def allowed_precision(self) -> str:
        """The coarsest precision that these parameters allow an engine to compute in.

        The verdict's tolerances follow it, and an engine whose receipt claims a coarser one is a
        mismatch. Override it where another field than ``precision`` allows one; empty for the
        backend's default.
        """
        return getattr(self, "precision", "")

    def get_model_files(self) -> tuple[str, ...]:
        """Return the files of the artifact, inside ``work_dir`` where there is one.

        A backend that writes several files overrides it::

            def get_model_files(self):
                return self.in_work_dir(self.file_name, self.file_name.sibling(".bin"))
        """
        return self.in_work_dir(self.file_name)

    def in_work_dir(self, *names: str) -> tuple[str, ...]:
        """Return paths in ``work_dir``; the names themselves where there is none."""
        return tuple(str(PurePath(self.work_dir or "", name)) for name in names)

    def shape_profiles(self, usual: Shapes | None = None) -> dict[str, ShapeProfile]:
        """Return the smallest, usual and largest shapes of every input that has some.

        Args:
            usual: The shapes of example inputs, for where ``input_shapes`` are left out.

        Raises:
            ParamsError: The three kinds of shapes do not fit each other.
        """
        return resolve_profiles(self.input_shapes or usual or {}, self.min_shapes, self.max_shapes)


def _is_empty(value: Any) -> bool:
    containers = (str, bytes, tuple, list, dict, set, frozenset)
    return value is None or (isinstance(value, containers) and not value)


def _plain(params: BackendParams, name: str) -> Any:
    try:
        return to_plain(getattr(params, name))
    except TypeError as error:
        raise ParamsError(
            f"{type(params).__name__}.{name} cannot be written as JSON: {error}"
        ) from error


def _documented(owner: type[BackendParams]) -> list[tuple[Field, str]]:
    """List the fields that become flags, with their help."""
    fields = declared_fields(owner)
    pairs = []
    for name, text in _documentation(owner).items():
        if name in fields:
            pairs.append((fields[name], text))
        elif not hasattr(owner, name):  # a property may be documented too
            raise _unknown_field(owner.__name__, name, fields, "documents")
    return pairs


def _documentation(owner: type) -> dict[str, str]:
    """Read the section about fields of the nearest class that has one."""
    texts = (read_fields(vars(base).get("__doc__") or "") for base in owner.__mro__)
    return next(filter(None, texts), {})


def _unknown_field(
    owner: str, name: str, fields: Mapping[str, Field], verb: str = "got"
) -> ParamsError:
    guess = nearest(name, fields)
    return ParamsError(
        f"{owner} {verb} {name!r}, which is not one of its fields: {', '.join(fields)}",
        hint=f"did you mean {guess!r}?" if guess else None,
    )
