"""Read ``backend_config``: the backend's parameters, under Enginebay's or other toolkits' names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from enginebay.config.model_inputs import read_model_inputs
from enginebay.errors import ParamsError
from enginebay.params import Field, declared_fields

if TYPE_CHECKING:
    from enginebay.config.problems import Problems
    from enginebay.config.sections import Sections
    from enginebay.params import BackendParams, ConfigKey

Params = TypeVar("Params", bound="BackendParams")

NAME = "backend_config"
MODEL_INPUTS = "model_inputs"
_SHAPES = {"input_shapes", "min_shapes", "max_shapes"}


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
    if fields.keys() & _SHAPES:
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
                    self._shapes.update(read_model_inputs(value, self._problems))
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
