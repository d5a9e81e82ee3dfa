"""``backend_config``: the backend's parameters, in its own words or in another toolkit's."""

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
    params_class: type[Params],
    sections: Sections,
    problems: Problems,
    *,
    over: Mapping[str, Any],
) -> Params:
    """The parameters that a config requests.

    Args:
        params_class: The backend's params class.
        sections: The config's sections.
        problems: The list for everything that is wrong or has no effect; a value that is wrong
            stays at its default.
        over: Fields that win over the config's.
    """
    reader = _SectionReader(params_class, problems)
    reader.read(sections.backend_config, ())
    defaults = _from_other_sections(sections)
    given = {**reader.values(), **over}
    if given.keys() & _SHAPES:
        defaults.pop("input_shapes", None)
    try:
        return params_class(**{**defaults, **given})
    except ParamsError as err:
        problems.wrong((NAME,), str(err), err.hint)
        return params_class(**over)


def _from_other_sections(sections: Sections) -> dict[str, Any]:
    """The parameters that follow from sections that are not the backend's."""
    ir, values = sections.ir, dict[str, Any]()
    if ir.save_file:
        values["file_name"] = PurePath(ir.save_file).stem
    if ir.input_shape and len(ir.input_names) <= 1:
        width, height = ir.input_shape
        name = ir.input_names[0] if ir.input_names else ""
        values["input_shapes"] = {name: (1, 3, height, width)}
    return values


class _SectionReader:
    """Sorts the keys of the section into fields and other spellings of fields."""

    def __init__(self, params_class: type[BackendParams], problems: Problems) -> None:
        self._fields = {
            name: msgspec.structs.replace(field, owner=NAME)
            for name, field in declared_fields(params_class).items()
            if name != "work_dir"  # only the caller gives it
        }
        self._keys: Mapping[str, ConfigKey] = params_class.config_keys()
        self._problems = problems
        self._own: dict[str, Any] = {}
        self._shapes: dict[str, Any] = {}
        self._spelled: dict[str, Mapping[str, Any]] = {dotted: {} for dotted in self._keys}

    def values(self) -> dict[str, Any]:
        """The fields; their own names win, then of two other spellings the later declared one."""
        values = dict(self._shapes)
        for fields in self._spelled.values():
            values.update(fields)
        return values | self._own

    def read(self, section: Mapping[str, Any], above: tuple[str, ...]) -> None:
        for key, value in section.items():
            path = (NAME, *above, key)
            dotted = ".".join(map(str, (*above, key)))
            with self._problems.collecting(path):
                if dotted in self._keys:
                    self._read_spelling(dotted, value)
                elif any(known.startswith(f"{dotted}.") for known in self._keys):
                    if not isinstance(value, Mapping):
                        kind = type(value).__name__
                        raise ParamsError(f"'{key}' is a {kind}: wanted keys and values")
                    self.read(value, (*above, str(key)))
                elif not above and key == MODEL_INPUTS:
                    self._shapes.update(read_model_inputs(value, self._problems))
                elif not above and key in self._fields:
                    self._own[key] = _convert(self._fields[key], value)
                else:
                    self._problems.unknown(path, self._known(above))

    def _read_spelling(self, dotted: str, value: Any) -> None:
        key = self._keys[dotted]
        field = Field(NAME, dotted, key.type, optional=True, required=False, default=None)
        self._spelled[dotted] = key.fields(None if value is None else field.convert(value))
        if key.no_effect:
            self._problems.notes.append(f"{NAME}.{dotted} has no effect: {key.no_effect}")

    def _known(self, above: tuple[str, ...]) -> set[str]:
        """The keys that the section may have at this level."""
        prefix = "".join(f"{key}." for key in above)
        spelled = {
            key.removeprefix(prefix).partition(".")[0]
            for key in self._keys
            if key.startswith(prefix)
        }
        return spelled if above else {*self._fields, *spelled, MODEL_INPUTS, "type"}


def _convert(field: Field, value: Any) -> Any:
    """The value as the field's type; a choice in another case is that choice."""
    if isinstance(value, str) and value not in field.choices:
        for choice in field.choices:
            if isinstance(choice, str) and choice.casefold() == value.casefold():
                return choice
    return value if value is None else field.convert(value)
