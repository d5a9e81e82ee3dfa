"""Conformance tests of parameters: flags, configs and manifests agree."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, get_args, get_origin

import enginebay as eb
from enginebay.authors import declared_fields
from enginebay.errors import ParamsError

if TYPE_CHECKING:
    from enginebay_testing.conformance.kit import Kit


class ParamsLaws:
    """Conformance tests: flags, configs and manifests follow from the declared parameters."""

    def test_every_flag_is_a_documented_field(self, kit: Kit) -> None:
        """Exactly the documented fields of the parameters are flags, each with a help text."""
        fields = declared_fields(kit.backend.Params)
        flags = _list_flags(kit.backend)
        assert flags, "no field is documented: give the class an Args: section"
        for name, action in flags.items():
            assert name in fields, f"flag --{name} is not a field"
            assert (action.help or "").strip(), f"flag --{name} has no help"

    def test_flags_config_and_manifest_agree(self, kit: Kit) -> None:
        """Flags, a config and a manifest with the same values result in equal parameters."""
        changed = _change_values(kit.backend)
        assert changed, "every documented field accepts only its default"
        params = kit.backend.Params(**changed)
        parser = argparse.ArgumentParser()
        kit.backend.add_arguments(parser)
        words = [word for name, value in changed.items() for word in _to_arguments(name, value)]
        assert kit.backend.Params.from_args(parser.parse_args(words)) == params, words
        # As a manifest stores it.
        mapping = json.loads(json.dumps(params.to_mapping()))
        assert kit.backend.Params.from_mapping(mapping) == params, mapping
        config = {"backend_config": {"type": kit.name, **mapping}}
        configured = kit.backend.build_param_from_config(config, work_dir="here")
        assert configured == params.replace(work_dir="here"), config


def _list_flags(backend: eb.Backend) -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    backend.add_arguments(parser)
    # argparse has no public list of a parser's options.
    return {action.dest: action for action in parser._actions}


def _change_values(backend: eb.Backend) -> dict[str, Any]:
    """Return flag → a valid value that is not the default; omit flags without such a value."""
    fields, changed = declared_fields(backend.Params), {}
    for name in _list_flags(backend):
        value = _change_value(fields[name])
        try:
            backend.Params(**{name: value})
        except ParamsError:
            continue  # the field has a rule that generated values do not satisfy
        if value is not None and name != "work_dir":
            changed[name] = value
    return changed


def _change_value(field: Any) -> Any:
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


def _to_arguments(name: str, value: object) -> list[str]:
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
