"""Laws of the parameters: one declaration, the same through flags, configs and manifests."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, get_args, get_origin

import enginebay as eb
from enginebay.errors import ParamsError
from enginebay.params import declared_fields

if TYPE_CHECKING:
    from enginebay.params import Field
    from enginebay.testing.conformance.kit import Kit


class ParamsLaws:
    """Declared once."""

    def test_every_flag_is_a_documented_field(self, kit: Kit) -> None:
        """Every field that the docstring documents is a flag with a help text, and no other is."""
        fields = declared_fields(kit.backend.Params)
        flags = _flags(kit.backend)
        assert flags, "no field is documented: give the class an Args: section"
        for name, action in flags.items():
            assert name in fields, f"flag --{name} is no field"
            assert (action.help or "").strip(), f"flag --{name} has no help"

    def test_flags_config_and_manifest_agree(self, kit: Kit) -> None:
        """Every value comes back the same from flags, from a config and from a manifest."""
        changed = _other_values(kit.backend)
        assert changed, "no documented field takes another value"
        params = kit.backend.Params(**changed)
        parser = argparse.ArgumentParser()
        kit.backend.add_arguments(parser)
        words = [word for name, value in changed.items() for word in _words(name, value)]
        assert kit.backend.Params.from_args(parser.parse_args(words)) == params, words
        kept = json.loads(json.dumps(params.to_mapping()))
        assert kit.backend.Params.from_mapping(kept) == params, kept
        config = {"backend_config": {"type": kit.name, **kept}}
        found = kit.backend.build_param_from_config(config, work_dir="here")
        assert found == params.replace(work_dir="here"), config


def _flags(backend: eb.Backend) -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    backend.add_arguments(parser)
    return {action.dest: action for action in parser._actions}


def _other_values(backend: eb.Backend) -> dict[str, Any]:
    """Return another value than the default for each flag; a field that refuses it is left out."""
    fields, found = declared_fields(backend.Params), {}
    for name in _flags(backend):
        value = _other_value(fields[name])
        try:
            backend.Params(**{name: value})
        except ParamsError:
            continue  # it has a rule of its own, which made-up values do not know
        if value is not None and name != "work_dir":
            found[name] = value
    return found


def _other_value(field: Field) -> Any:
    if field.choices:
        return next((choice for choice in field.choices if choice != field.default), None)
    if field.type is bool:
        return not field.default
    if field.type is eb.FileName:
        return eb.FileName("another")
    if field.name.endswith("_shapes"):
        return {"x": (1, 3)}
    if field.type in (int, float):
        return field.type((field.default or 0) + 2)
    if get_origin(field.type) is tuple and get_args(field.type)[0] is str:
        return ("one", "two")
    if get_origin(field.type) is dict and get_args(field.type) == (str, str):
        return {"key": "value"}
    return "another" if field.type is str else None


def _words(name: str, value: Any) -> list[str]:
    """Return the arguments that give a field a value."""
    flag = "--" + name.replace("_", "-")
    if isinstance(value, bool):
        return [flag if value else "--no-" + flag[2:]]
    if isinstance(value, tuple):
        return [flag, ",".join(value)]
    if not isinstance(value, dict):
        return [flag, str(value)]
    if name.endswith("_shapes"):
        return [flag, ",".join(f"{key}:{'x'.join(map(str, dims))}" for key, dims in value.items())]
    return [word for key, text in value.items() for word in (flag, f"{key}={text}")]
