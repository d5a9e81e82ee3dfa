"""``backend_config``: the backend's own parameters, in its words or in others'."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from enginebay.config.sections.shapes import read_model_inputs
from enginebay.errors import ParamsError
from enginebay.params import Field, declared_fields

if TYPE_CHECKING:
    from enginebay.config.sections.kinds import CalibSection, Sections
    from enginebay.config.sections.problems import Problems
    from enginebay.params import BackendParams, ConfigKey

Params = TypeVar("Params", bound="BackendParams")

NAME = "backend_config"
MODEL_INPUTS = "model_inputs"
_SHAPES = ("input_shapes", "min_shapes", "max_shapes")


def backend_params(
    params_class: type[Params],
    sections: Sections,
    problems: Problems,
    *,
    over: Mapping[str, Any],
    notes: list[str] | None = None,
) -> Params:
    """The parameters that a config asks for.

    Args:
        params_class: The backend's params class.
        sections: The config's sections.
        problems: Takes what is wrong; the params' defaults stand in for it.
        over: Fields that win over the config's.
        notes: Takes what the section says to no effect.
    """
    reader = _Reader(params_class, problems, notes if notes is not None else [])
    reader.read(sections.backend_config, ())
    defaults = _from_other_sections(sections)
    if "calibration" not in over:
        defaults |= _calibration(params_class, sections.calib, problems)
    foreign = reader.foreign
    shapes = foreign.keys() | reader.own.keys() | over.keys()
    if shapes & set(_SHAPES):
        defaults.pop("input_shapes", None)
    values = {**defaults, **foreign, **reader.own, **over}
    try:
        return params_class(**values)
    except ParamsError as err:
        problems.wrong((NAME,), str(err), err.hint)
        return params_class(**over)


def _from_other_sections(sections: Sections) -> dict[str, Any]:
    """What sections that are not the backend's mean for its parameters."""
    ir, values = sections.ir, dict[str, Any]()
    if ir.save_file:
        values["file_name"] = PurePath(ir.save_file).stem
    if ir.input_shape and len(ir.input_names) <= 1:
        width, height = ir.input_shape
        name = ir.input_names[0] if ir.input_names else ""
        values["input_shapes"] = {name: (1, 3, height, width)}
    return values


def _calibration(
    params_class: type[BackendParams], calib: CalibSection, problems: Problems
) -> dict[str, str]:
    """The file with recorded inputs, for a backend that takes one."""
    file = calib.calib_file
    if calib.create_calib:
        problems.wrong(
            ("calib_config", "create_calib"),
            "there is no data set here to record calibration data from",
            "record inputs with numpy.savez, and write calib_config = dict(calib_file='FILE.npz') "
            "or pass --calibration FILE.npz",
        )
    elif file and "calibration" in declared_fields(params_class):
        if not file.endswith(".npz"):
            problems.wrong(
                ("calib_config", "calib_file"),
                f"'{file}' holds no calibration data: wanted an .npz file with recorded inputs",
                "write it with numpy.savez, one array for each input",
            )
        return {"calibration": file}
    return {}


class _Reader:
    """Sorts the keys of a section.

    Attributes:
        own: Values of keys that are fields.
    """

    def __init__(
        self, params_class: type[BackendParams], problems: Problems, notes: list[str]
    ) -> None:
        self._fields = {
            name: msgspec.structs.replace(field, owner=NAME)
            for name, field in declared_fields(params_class).items()
            if name != "work_dir"  # the caller's own
        }
        self._keys: Mapping[str, ConfigKey] = params_class.config_keys()
        self._problems = problems
        self._notes = notes
        self.own: dict[str, Any] = {}
        self._shapes: dict[str, Any] = {}
        self._spelled: dict[str, Mapping[str, Any]] = {}

    @property
    def foreign(self) -> dict[str, Any]:
        """Values of fields that other keys stand for; of two for one field the later declared."""
        spelled = (self._spelled.get(dotted, {}) for dotted in self._keys)
        return {**self._shapes, **{name: value for each in spelled for name, value in each.items()}}

    def read(self, section: Mapping[str, Any], above: tuple[str, ...]) -> None:
        for key, value in section.items():
            path = (NAME, *above, key)
            dotted = ".".join(map(str, (*above, key)))
            with self._problems.collecting(path):
                if dotted in self._keys:
                    self._foreign(dotted, self._keys[dotted], value)
                elif any(known.startswith(f"{dotted}.") for known in self._keys):
                    self._inside(value, (*above, str(key)))
                elif not above and key == MODEL_INPUTS:
                    self._shapes.update(read_model_inputs(value, self._problems))
                elif not above and key in self._fields:
                    self.own[key] = self._converted(self._fields[key], value)
                else:
                    self._problems.unknown(path, self._known(above))

    def _inside(self, value: Any, above: tuple[str, ...]) -> None:
        if not isinstance(value, Mapping):
            raise ParamsError(f"'{above[-1]}' is a {type(value).__name__}: wanted keys and values")
        self.read(value, above)

    def _foreign(self, dotted: str, key: ConfigKey, value: Any) -> None:
        field = Field(NAME, dotted, key.type, optional=True, required=False, default=None)
        self._spelled[dotted] = key.fields(None if value is None else field.convert(value))
        if key.no_effect:
            self._notes.append(f"{NAME}.{dotted} has no effect: {key.no_effect}")

    def _converted(self, field: Field, value: Any) -> Any:
        """The value; a choice that differs in its case only is taken."""
        if isinstance(value, str) and value not in field.choices:
            for choice in field.choices:
                if isinstance(choice, str) and choice.casefold() == value.casefold():
                    return choice
        return value if value is None else field.convert(value)

    def _known(self, above: tuple[str, ...]) -> set[str]:
        prefix = "".join(f"{key}." for key in above)
        foreign = {
            key.removeprefix(prefix).partition(".")[0]
            for key in self._keys
            if key.startswith(prefix)
        }
        return foreign if above else {*self._fields, *foreign, MODEL_INPUTS, "type"}
