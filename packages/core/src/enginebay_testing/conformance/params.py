"""Conformance tests of parameters: flags, configs and manifests agree."""

from __future__ import annotations

import argparse
import ast
import json
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import msgspec

import enginebay as eb
from enginebay.authors import declared_fields
from enginebay.authors.artifacts import load_request
from enginebay.errors import ParamsError
from enginebay_testing.conformance.kit import expect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

    from enginebay.hooks import WrapperRequest
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
        expect(" ".join(words), kit.backend.Params.from_args(parser.parse_args(words)), params)
        # As a manifest stores it.
        mapping = json.loads(json.dumps(params.to_mapping()))
        expect(f"manifest {mapping}", kit.backend.Params.from_mapping(mapping), params)
        config = {"backend_config": {"type": kit.name, **mapping}}
        configured = kit.backend.build_param_from_config(config, work_dir="here")
        expect(f"config {config}", configured, params.replace(work_dir="here"))

    def test_every_parameter_is_read(self, kit: Kit) -> None:
        """The plugin's source reads each documented parameter that core does not read itself."""
        # The other laws show that core's own fields, and the precision, have an effect.
        own = {*_list_flags(kit.backend)} - {*eb.BackendParams.__struct_fields__, "precision"}
        unread = own - {name for file in _find_sources(kit) for name in _find_read_names(file)}
        assert not unread, (
            f"expected code that reads each parameter, found none that reads "
            f"{', '.join(sorted(unread))}"
        )

    def test_run_time_parameters_are_read_at_load(
        self, kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run-time parameter is read when an engine is loaded, and changes none of its files."""
        marked = kit.backend.Params().run_time_fields
        if not marked:
            kit.skip("the backend marks no run-time parameters")
        kit.require_engine()
        unknown = set(marked) - {*kit.backend.Params.__struct_fields__}
        assert not unknown, f"expected fields, found {', '.join(sorted(unknown))}"
        monkeypatch.chdir(tmp_path)  # a changed value may be the name of a file
        changes = _change_values(kit.backend)
        changed = {name: changes[name] for name in marked if name in changes}
        plain, other, again = (
            _convert(kit, tmp_path / folder, params)
            for folder, params in (("plain", {}), ("other", changed), ("again", {}))
        )
        # Of an engine whose builds differ by themselves, the reads alone are checked.
        different = [name for name in plain if plain[name] == again[name] != other.get(name)]
        assert not different, (
            f"expected the same files with other values of {', '.join(marked)}, found a difference "
            f"in {', '.join(different)}"
        )
        request = load_request(kit.artifact("fixed")).wrapper_request()
        unread = [
            name
            for name in marked
            if name not in _find_reads(kit, request, {name: changed.get(name)})
        ]
        assert not unread, (
            f"expected a load and a call that read each run-time parameter, found none that reads "
            f"{', '.join(unread)}"
        )

    def test_what_depends_on_the_machine_is_bound_to_it(self, kit: Kit) -> None:
        """With a parameter whose value is ``host`` or ``native``, ``bound_to`` names properties.

        A warning, not a failure: the engine may mean something else by the word.
        """
        for name, field in declared_fields(kit.backend.Params).items():
            for value in {*map(str, field.choices or ()), str(field.default)} & _THIS_MACHINE:
                params = kit.backend.Params.from_mapping({name: value})
                if not kit.backend.bound_to(params):
                    warnings.warn(
                        f"{name}='{value}': expected bound_to() to return the properties of this "
                        "machine that the artifact depends on, found none: another machine would "
                        "load it",
                        stacklevel=2,
                    )


#: The usual names of compilers for "the machine that compiles".
_THIS_MACHINE = {"host", "native"}


def _convert(kit: Kit, folder: Path, params: Mapping[str, Any]) -> dict[str, bytes]:
    """Convert the model ``fixed``, and return the content of each of the engine's files."""
    files = kit.backend.to_backend(kit.ir("fixed"), work_dir=str(folder), **params)
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def _find_reads(kit: Kit, request: WrapperRequest, changes: Mapping[str, Any]) -> set[str]:
    """Return the fields that the plugin reads while it loads an engine and calls it."""
    reads: set[str] = set()
    kind: Any = kit.backend.Params

    class Recorded(kind):  # type: ignore[misc]  # the backend's class is known at run time only
        def __getattribute__(self, name: str) -> Any:
            reads.add(name)
            return super().__getattribute__(name)

    params = Recorded(**{**request.params.to_mapping(), **changes})
    reads.clear()
    # The engine may refuse a generated value, after it was read.
    with (
        suppress(eb.EnginebayError),
        kit.backend.load(msgspec.structs.replace(request, params=params)) as wrapper,
    ):
        wrapper(kit.example("fixed").arrays())
    return reads


def _find_sources(kit: Kit) -> set[Path]:
    """Return the source files of the packages that declare the plugin and its parameters."""
    names = {kit.status.module, *(cls.__module__ for cls in kit.backend.Params.__mro__)}
    files: set[Path] = set()
    for name in {name.partition(".")[0] for name in names} - {"enginebay", "msgspec", "builtins"}:
        module = sys.modules[name]
        folders = [Path(path) for path in getattr(module, "__path__", ())]
        files |= {file for folder in folders for file in folder.rglob("*.py")}
        files |= {Path(module.__file__)} if module.__file__ and not folders else set()
    return files


def _find_read_names(file: Path) -> Iterator[str]:
    """Yield the attributes that a file's code reads, and its texts, such as those of getattr()."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


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
    kind = get_args(field.type)[0] if get_origin(field.type) is Annotated else field.type
    if kind in (int, float):
        return kind((field.default or 0) + 2)
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
