"""The JSON Schema of deploy configs, for completion and checks in editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay import BackendParams, FileName
from enginebay.authors import declared_fields, read_fields
from enginebay.authors.arrays import Shapes
from enginebay.authors.files import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DIMS = {"type": "array", "items": {"type": "integer"}}


def config_schema(backends: Mapping[str, type[BackendParams]]) -> dict[str, Any]:
    """Return the JSON Schema of configs for these backends.

    Args:
        backends: Backend name → params class of the backend.

    Example:
        >>> schema = config_schema({"mine": BackendParams})
        >>> schema["properties"]["backend_config"]["anyOf"][0]["properties"]["type"]
        {'const': 'mine'}
    """
    # The backend may not be installed here, or its name may be inherited.
    other = {"properties": {"type": {"type": "string", "not": {"enum": list(backends)}}}}
    known = [_backend_schema(name, params) for name, params in backends.items()]
    paths = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    properties = {
        "$schema": {"type": "string"},
        "_base_": {"description": "Configs to inherit from, by relative path.", **paths},
        "backend_config": {"anyOf": [*known, {"type": "object", **other}]},
        **{name: _section_schema(kind) for name, kind in SECTIONS.items() if kind is not None},
    }
    return {
        "$schema": _DIALECT,
        "title": "Enginebay deploy config",
        # Sections of extensions, and names that are private to a config.
        "patternProperties": {"^(ext_|_)": {}},
        **_object_schema(properties),
    }


def _object_schema(properties: Mapping[str, object], *, others: bool = False) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": others}


def _section_schema(kind: type[msgspec.Struct]) -> dict[str, object]:
    texts = read_fields(kind.__doc__ or "")
    properties = {
        name: _describe_optional(_field_schema(field.type, field.choices), texts.get(name, ""))
        for name, field in declared_fields(kind).items()
    }
    return _object_schema(properties, others=not kind.__struct_config__.forbid_unknown_fields)


def _backend_schema(name: str, params: type[BackendParams]) -> dict[str, object]:
    texts: dict[str, str] = {}
    # The text of the nearest class wins.
    for base in reversed(params.__mro__):
        texts.update(read_fields(vars(base).get("__doc__") or ""))
    properties: dict[str, Any] = {"type": {"const": name}, "model_inputs": _model_inputs_schema()}
    for dotted, key in params.config_keys().items():
        *above, last = dotted.split(".")
        inner = properties
        for word in above:
            inner = inner.setdefault(word, _object_schema({}))["properties"]
        inner[last] = _describe_optional(_type_schema(key.type), key.no_effect)
    for field_name, field in declared_fields(params).items():
        if field_name != "work_dir":
            properties[field_name] = _describe_optional(
                _field_schema(field.type, field.choices), texts.get(field_name, "")
            )
    return {"title": name, **_object_schema(properties)}


def _model_inputs_schema() -> dict[str, object]:
    sizes = _object_schema(dict.fromkeys(("min_shape", "opt_shape", "max_shape"), _DIMS))
    ranges = {"type": "object", "additionalProperties": {"anyOf": [_DIMS, sizes]}}
    return {
        "description": "Shapes of the inputs: "
        "[{input_shapes: {x: {min_shape, opt_shape, max_shape}}}]",
        "type": "array",
        "maxItems": 1,
        "items": _object_schema({"input_shapes": ranges, "opt_shapes": ranges}),
    }


def _field_schema(type_: object, choices: Iterable[object]) -> dict[str, object]:
    if type_ == Shapes:
        dims = {"type": "array", "items": {"type": ["integer", "null"]}}
        return {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": dims}]}
    if choices:
        # The reader ignores the case of choices. A schema cannot, so it lists the upper case too.
        words = [choice for choice in choices if isinstance(choice, str)]
        return {"enum": [*choices, *dict.fromkeys(w.upper() for w in words if w.islower())]}
    return _type_schema(type_)


def _type_schema(type_: object) -> dict[str, object]:
    (schema,), components = msgspec.json.schema_components([type_], schema_hook=_custom_type_schema)
    return {**schema, "$defs": components} if components else dict(schema)


def _custom_type_schema(type_: type) -> dict[str, object]:
    if issubclass(type_, FileName):
        return {"type": "string"}
    return {}  # a type that only the backend knows


def _describe_optional(schema: Mapping[str, object], text: str) -> dict[str, object]:
    """Return a schema that also allows null (for the default), with ``text`` as the description."""
    described = {"description": text} if text else {}
    return {**described, "anyOf": [schema, {"type": "null"}]}
