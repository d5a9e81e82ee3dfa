"""Read ``backend_config``: the backend's parameters, under Enginebay's or other toolkits' names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from enginebay.errors import ParamsError
from enginebay.params import Field, declared_fields

if TYPE_CHECKING:
    from enginebay.config.problems import Problems
    from enginebay.config.sections import Sections
    from enginebay.params import BackendParams, ConfigKey, Shapes

Params = TypeVar("Params", bound="BackendParams")

NAME = "backend_config"
MODEL_INPUTS = "model_inputs"
#: Key of ``model_inputs`` → the field with these shapes.
_SHAPE_FIELDS = {"min_shape": "min_shapes", "opt_shape": "input_shapes", "max_shape": "max_shapes"}
#: Names of the key in ``model_inputs`` with the shapes of all inputs.
_SHAPE_KEYS = ("input_shapes", "opt_shapes")


def backend_params(
    params_class: type[Params], sections: Sections, problems: Problems, *, over: Mapping[str, Any]
) -> Params:
    """Return the parameters that a config requests.

    Args:
        params_class: The backend's params class.
        sections: The config's sections.
        problems: Collects the errors, and notes about keys without effect. An invalid value is
            replaced by the field's default.
        over: Field name → value; these values override the config.
    """
    reader = _SectionReader(params_class, problems)
    reader.read_keys(sections.backend_config, ())
    defaults = _read_other_sections(sections)
    fields = {**reader.collect_fields(), **over}
    # Shapes of the backend's section belong together: none comes from another section.
    if fields.keys() & set(_SHAPE_FIELDS.values()):
        defaults.pop("input_shapes", None)
    try:
        return params_class(**{**defaults, **fields})
    except ParamsError as err:
        problems.wrong((NAME,), str(err), err.hint)
        return params_class(**over)


def _read_other_sections(sections: Sections) -> dict[str, Any]:
    """Return the backend's parameters that ``ir_config`` or ``onnx_config`` specifies."""
    ir, values = sections.ir, dict[str, Any]()
    if ir.save_file:
        values["file_name"] = PurePath(ir.save_file).stem
    if ir.input_shape and len(ir.input_names) <= 1:
        width, height = ir.input_shape
        name = ir.input_names[0] if ir.input_names else ""
        values["input_shapes"] = {name: (1, 3, height, width)}
    return values


class _SectionReader:
    """Reads the keys of ``backend_config``: the names of fields, and the keys of other toolkits."""

    def __init__(self, params_class: type[BackendParams], problems: Problems) -> None:
        self._fields = {
            name: msgspec.structs.replace(field, owner=NAME)
            for name, field in declared_fields(params_class).items()
            if name != "work_dir"  # only the caller passes it
        }
        self._keys: Mapping[str, ConfigKey] = params_class.config_keys()
        self._problems = problems
        self._own: dict[str, Any] = {}
        self._shapes: dict[str, Any] = {}
        self._aliases: dict[str, Mapping[str, Any]] = {dotted: {} for dotted in self._keys}

    def collect_fields(self) -> dict[str, Any]:
        """Return the values by field name.

        A key with the name of a field overrides the keys of other toolkits, and these override
        ``model_inputs``. If several keys of other toolkits set the same field, the last one in
        :meth:`~enginebay.BackendParams.config_keys` applies.
        """
        result = dict(self._shapes)
        for fields in self._aliases.values():
            result.update(fields)
        return result | self._own

    def read_keys(self, section: Mapping[str, object], above: tuple[str, ...]) -> None:
        for key, value in section.items():
            path = (NAME, *above, key)
            dotted = ".".join(map(str, (*above, key)))
            with self._problems.collecting(path):
                if dotted in self._keys:
                    self._read_alias(dotted, value)
                elif any(known.startswith(f"{dotted}.") for known in self._keys):
                    if not isinstance(value, Mapping):
                        kind = type(value).__name__
                        raise ParamsError(f"'{key}' is a {kind}: expected keys and values")
                    self.read_keys(value, (*above, str(key)))
                elif not above and key == MODEL_INPUTS:
                    self._shapes.update(_read_model_inputs(value, self._problems))
                elif not above and key in self._fields:
                    self._own[key] = _convert_value(self._fields[key], value)
                else:
                    self._problems.unknown(path, self._known_keys(above))

    def _read_alias(self, dotted: str, value: object) -> None:
        key = self._keys[dotted]
        field = Field(NAME, dotted, key.type, optional=True, required=False, default=None)
        self._aliases[dotted] = key.fields(None if value is None else field.convert(value))
        if key.no_effect:
            self._problems.notes.append(f"{NAME}.{dotted} has no effect: {key.no_effect}")

    def _known_keys(self, above: tuple[str, ...]) -> set[str]:
        prefix = "".join(f"{key}." for key in above)
        aliases = {
            key.removeprefix(prefix).partition(".")[0]
            for key in self._keys
            if key.startswith(prefix)
        }
        return aliases if above else {*self._fields, *aliases, MODEL_INPUTS, "type"}


def _convert_value(field: Field, value: object) -> object:
    """Convert a value to the field's type; a choice may be written in upper or lower case."""
    if isinstance(value, str) and value not in field.choices:
        for choice in field.choices:
            if isinstance(choice, str) and choice.casefold() == value.casefold():
                return choice
    return value if value is None else field.convert(value)


def _read_model_inputs(content: object, problems: Problems) -> dict[str, Shapes]:
    """Return the fields ``input_shapes``, ``min_shapes`` and ``max_shapes`` of the params.

    Args:
        content: ``[{"input_shapes": {"x": {"min_shape": …, "opt_shape": …, "max_shape": …}}}]``. A
            list of sizes in place of the innermost dict is a fixed shape, ``opt_shapes`` is
            another name for ``input_shapes``, and a size of -1 means any size.
        problems: Collects the errors.
    """
    shapes: dict[str, dict[str, Any]] = {field: {} for field in _SHAPE_FIELDS.values()}
    entries = content if isinstance(content, list | tuple) else [content]
    if len(entries) > 1:
        problems.wrong(
            (NAME, MODEL_INPUTS, 1), f"expected one entry for the whole model, found {len(entries)}"
        )
    for index, entry in enumerate(entries[:1]):
        path = (NAME, MODEL_INPUTS, index) if entries is content else (NAME, MODEL_INPUTS)
        if not isinstance(entry, Mapping):
            problems.wrong(path, f"expected the key 'input_shapes', found {type(entry).__name__}")
            continue
        for key, inputs in entry.items():
            if key not in _SHAPE_KEYS:
                problems.unknown((*path, key), _SHAPE_KEYS)
            elif not isinstance(inputs, Mapping):
                problems.wrong(
                    (*path, key), f"expected a shape for each input, found {type(inputs).__name__}"
                )
            else:
                for name, value in inputs.items():
                    _read_input(str(name), value, (*path, key, name), shapes, problems)
    return {field: by_input for field, by_input in shapes.items() if by_input}


def _read_input(
    name: str,
    value: Any,
    path: tuple[str | int, ...],
    shapes: dict[str, dict[str, Any]],
    problems: Problems,
) -> None:
    if not isinstance(value, Mapping):
        value = {"opt_shape": value}
    default = value.get("opt_shape", value.get("min_shape", value.get("max_shape")))
    for key, dims in {**({} if default is None else {"opt_shape": default}), **value}.items():
        if key not in _SHAPE_FIELDS:
            problems.unknown((*path, key), _SHAPE_FIELDS)
        elif not isinstance(dims, list | tuple) or not all(isinstance(dim, int) for dim in dims):
            problems.wrong(
                (*path, key), f"{dims!r:.80} is not a shape: expected a list of integers"
            )
        else:
            shapes[_SHAPE_FIELDS[key]][name] = tuple(None if dim < 0 else dim for dim in dims)
