"""The JSON Schema of deploy configs, with which editors complete and check them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.config.sections import SECTIONS
from enginebay.params import FileName, Shapes, declared_fields, read_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.params import BackendParams, Field

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DIMS = {"type": "array", "items": {"type": "integer"}}


def config_schema(backends: Mapping[str, type[BackendParams]]) -> dict[str, Any]:
    """The schema of configs for these backends.

    Args:
        backends: Params classes by the backends' names.

    Example:
        >>> from enginebay.params import BackendParams
        >>> schema = config_schema({"mine": BackendParams})
        >>> schema["properties"]["backend_config"]["anyOf"][0]["properties"]["type"]
        {'const': 'mine'}
    """
    # A config may be for a backend that is not installed here, or inherit the name of its own.
    other = {"properties": {"type": {"type": "string", "not": {"enum": list(backends)}}}}
    known = [_backend(name, params) for name, params in backends.items()]
    paths = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    properties = {
        "$schema": {"type": "string"},
        "_base_": {"description": "Configs to inherit from, by relative path.", **paths},
        "backend_config": {"anyOf": [*known, {"type": "object", **other}]},
        **{name: _section(kind) for name, kind in SECTIONS.items() if kind is not None},
    }
    return {
        "$schema": _DIALECT,
        "title": "Enginebay deploy config",
        "patternProperties": {"^(ext_|_)": {}},
        **_object(properties),
    }


def _object(properties: Mapping[str, Any], *, others: bool = False) -> dict[str, Any]:
    """A dict with these keys, and with any others if they are allowed."""
    return {"type": "object", "properties": properties, "additionalProperties": others}


def _section(kind: type[msgspec.Struct]) -> dict[str, Any]:
    texts = read_fields(kind.__doc__ or "")
    properties = {
        name: _described(_field(field), texts.get(name, ""))
        for name, field in declared_fields(kind).items()
    }
    return _object(properties, others=not kind.__struct_config__.forbid_unknown_fields)


def _backend(name: str, params: type[BackendParams]) -> dict[str, Any]:
    texts: dict[str, str] = {}
    for base in reversed(params.__mro__):
        texts.update(read_fields(vars(base).get("__doc__") or ""))
    properties: dict[str, Any] = {"type": {"const": name}, "model_inputs": _model_inputs()}
    for dotted, key in params.config_keys().items():
        *above, last = dotted.split(".")
        inner = properties
        for word in above:
            inner = inner.setdefault(word, _object({}))["properties"]
        inner[last] = _described(_type(key.type), key.no_effect)
    for field_name, field in declared_fields(params).items():
        if field_name != "work_dir":
            properties[field_name] = _described(_field(field), texts.get(field_name, ""))
    return {"title": name, **_object(properties)}


def _model_inputs() -> dict[str, Any]:
    sizes = _object(dict.fromkeys(("min_shape", "opt_shape", "max_shape"), _DIMS))
    ranges = {"type": "object", "additionalProperties": {"anyOf": [_DIMS, sizes]}}
    return {
        "description": "Shapes of the inputs: "
        "[{input_shapes: {x: {min_shape, opt_shape, max_shape}}}]",
        "type": "array",
        "maxItems": 1,
        "items": _object({"input_shapes": ranges, "opt_shapes": ranges}),
    }


def _field(field: Field) -> dict[str, Any]:
    if field.type == Shapes:
        dims = {"type": "array", "items": {"type": ["integer", "null"]}}
        return {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": dims}]}
    if field.choices:
        words = [choice for choice in field.choices if isinstance(choice, str)]
        return {"enum": [*field.choices, *dict.fromkeys(w.upper() for w in words if w.islower())]}
    return _type(field.type)


def _type(type_: Any) -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components([type_], schema_hook=_hook)
    return {**schema, "$defs": components} if components else dict(schema)


def _hook(type_: type) -> dict[str, Any]:
    if issubclass(type_, FileName):
        return {"type": "string"}
    return {}  # something that only the backend knows


def _described(schema: dict[str, Any], text: str) -> dict[str, Any]:
    """The schema, for null too: nothing given."""
    described = {"description": text} if text else {}
    return {**described, "anyOf": [schema, {"type": "null"}]}
