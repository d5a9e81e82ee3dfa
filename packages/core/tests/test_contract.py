"""Plugins for this API version still work: their names in Enginebay are unchanged.

``contract_1.json`` records the names that a plugin could rely on at the release of API version 1.
New hooks, new fields with a default and new optional arguments are fine. Record a change that every
plugin survives, such as a wider type: ``python packages/core/tests/test_contract.py``. For any
other change, raise API_VERSION, record a new file, and write a fragment ``NAME.authors.md``.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

import enginebay as eb
from enginebay import environment, hooks, isolation
from enginebay.ir.onnx_file import read_onnx
from enginebay.tensors.arrays import numpy_dtype
from enginebay_testing import temporary_backend

Contract = dict[str, dict[str, str]]

RECORD = Path(__file__).with_name(f"contract_{eb.API_VERSION}.json")
HOOKS = (
    *("backend_info", "check_env", "to_backend", "build_wrapper", "bound_to"),
    *("rewriters", "model_sources", "data_sources", "metrics", "quantizable_nodes"),
    *("comparators", "time_layers", "unsupported_operators", "built_for"),
)
GIVEN = (
    *("CheckEnvRequest", "ConvertRequest", "WrapperRequest", "BindingRequest"),
    *("RewritersRequest", "ModelRequest", "DataRequest", "MetricRequest"),
    *("ComparatorRequest", "ComparisonRequest", "ComparisonResult", "Aligned"),
    *("LayersRequest", "TimedLayer", "BuiltFor"),
)
CLASSES = (eb.BackendParams, eb.FileName, eb.RewriterSet, eb.Wrapper)
CHECKS = ("passed", "failed", "skipped", "check_import", "check_distributions")
FUNCTIONS = (
    *(getattr(environment, name) for name in CHECKS),
    *(isolation.call, isolation.run, numpy_dtype, read_onnx, temporary_backend),
)
OPTIONAL = "optional: "


def contract() -> Contract:
    """Return the names that plugins use, with their fields, arguments or abstract methods."""
    structs = [eb.BackendInfo, eb.EnvReport, eb.Check, eb.Receipt, eb.TensorSpec, eb.IRModel]
    structs += [getattr(hooks, name) for name in GIVEN]
    found = {f"hook {name}": arguments(getattr(hooks, name)) for name in HOOKS}
    found |= {struct.__name__: fields(struct) for struct in structs}
    found |= {function.__name__: arguments(function) for function in FUNCTIONS}
    for owner in CLASSES:
        found[owner.__name__] = {
            name: "abstract"
            if getattr(value, "__isabstractmethod__", False)
            else f"{OPTIONAL}there"
            for name, value in members(owner)
        }
        for name, value in members(owner):
            function = getattr(value, "__func__", value)
            if inspect.isfunction(function):
                found[f"{owner.__name__}.{name}"] = arguments(function)
    found["BackendParams fields"] = fields(eb.BackendParams)
    return dict(sorted(found.items()))


def members(owner: type) -> list[tuple[str, Any]]:
    """Return the names that a class and its base classes in Enginebay define."""
    ours = [base for base in reversed(owner.__mro__) if base.__module__.startswith("enginebay")]
    found = {name: value for base in ours for name, value in vars(base).items()}
    return [(n, v) for n, v in found.items() if not n.startswith("_") or n == "__call__"]


def arguments(function: Any) -> dict[str, str]:
    found = {}
    for parameter in inspect.signature(function).parameters.values():
        if str(parameter.annotation).startswith("Unpack["):  # keywords that are declared elsewhere
            declared = function.__globals__[parameter.annotation[len("Unpack[") : -1]]
            for name, text in inspect.get_annotations(declared).items():
                found[name] = f"{OPTIONAL}KEYWORD_ONLY {text.__forward_arg__}"
            continue
        written = "" if parameter.annotation is parameter.empty else f" {parameter.annotation}"
        optional = "" if parameter.default is parameter.empty else OPTIONAL
        found[parameter.name] = f"{optional}{parameter.kind.name}{written}"
    return found


def fields(struct: Any) -> dict[str, str]:
    if not issubclass(struct, msgspec.Struct):  # a named tuple or a dataclass: its constructor
        return arguments(struct)
    written = {
        name: text
        for base in struct.__mro__
        for name, text in inspect.get_annotations(base).items()
    }
    return {
        field.name: f"{'' if field.required else OPTIONAL}{written[field.name]}"
        for field in msgspec.structs.fields(struct)
    }


def breaks(recorded: Contract, found: Contract) -> list[str]:
    """Return the changes that break a plugin for the recorded contract."""
    changes = [f"{thing} is gone" for thing in recorded if thing not in found]
    for thing, parts in found.items():
        before = recorded.get(thing, parts)
        changes += [f"{thing}: {part} is gone" for part in before if part not in parts]
        for part, text in parts.items():
            if part not in before and not text.startswith(OPTIONAL):
                changes.append(f"{thing}: {part} is new, and not optional")
            elif part in before and before[part] not in (text, text.removeprefix(OPTIONAL)):
                changes.append(f"{thing}: {part} is '{text}', was '{before[part]}'")
    return changes


def test_interface_for_plugins_matches_its_record() -> None:
    assert breaks(json.loads(RECORD.read_text(encoding="utf-8")), contract()) == []


def test_breaking_changes_are_reported_and_additions_are_not() -> None:
    before = {"R": {"a": "int", "b": "int"}, "gone": {}}
    after = {
        "R": {"a": "str", "c": "int", "d": f"{OPTIONAL}int"},
        "new": {"x": "int"},
    }
    assert breaks(before, after) == [
        "gone is gone",
        "R: b is gone",
        "R: a is 'str', was 'int'",
        "R: c is new, and not optional",
    ]
    assert breaks({"f": {"a": "int"}}, {"f": {"a": f"{OPTIONAL}int"}}) == []
    assert breaks({"f": {"a": f"{OPTIONAL}int"}}, {"f": {"a": "int"}}) != []


if __name__ == "__main__":
    RECORD.write_text(json.dumps(contract(), indent=1) + "\n", encoding="utf-8")
