"""Configs written as YAML, where PyYAML is installed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from enginebay.config.limits import DEPTH
from enginebay.config.places import Table, shown, wrong
from enginebay.config.values import ValueDocument
from enginebay.errors import MissingDependencyError

if TYPE_CHECKING:
    from enginebay.config.limits import Budget
    from enginebay.config.places import Place, Source
    from enginebay.config.templates import Templates

_MERGE = "tag:yaml.org,2002:merge"


def parse(source: Source, templates: Templates, budget: Budget) -> ValueDocument:
    """Parse a ``.yaml`` config.

    Raises:
        MissingDependencyError: No parser is installed.
        ConfigError: It is not YAML, a key comes twice, or it uses more than plain values.
    """
    try:
        import yaml
    except ImportError as err:
        raise MissingDependencyError(
            f"'{shown(source.path)}' is YAML, and no parser of it is installed",
            hint="pip install pyyaml, or write the config as .toml, .json or .py",
        ) from err
    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_nesting(yaml.parse(templates.text, Loader=loader_class), source)
        loader = loader_class(templates.text)
        # One loader has these constructors, the class of all loaders does not.
        loader.yaml_constructors = {
            **loader.yaml_constructors,
            "tag:yaml.org,2002:map": partial(_table, source=source),
            "tag:yaml.org,2002:str": partial(_text, templates=templates),
        }
        try:
            found = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as err:
        raise wrong(_place(err, source), f"this is not YAML: {_told(err)}") from err
    except (RecursionError, ValueError) as err:  # an alias of itself, or thousands of digits
        raise wrong(source.at(1, 1), f"this YAML cannot be read: {err}") from err
    return ValueDocument(Table() if found is None else found, source, templates, budget)


def _check_nesting(events: Any, source: Source) -> None:
    """Refuse what the parser's own recursion might not survive."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > DEPTH:
            place = source.at(event.start_mark.line + 1, event.start_mark.column + 1)
            raise wrong(place, f"values are nested more than {DEPTH} deep")


def _table(loader: Any, node: Any, *, source: Source) -> Table:
    table = Table()
    for key_node, value_node in node.value:
        mark = key_node.start_mark
        place = source.at(mark.line + 1, mark.column + 1)
        if key_node.tag == _MERGE:
            raise wrong(place, "a config cannot use a merge key '<<'", hint="inherit with _base_")
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, dict | list | set):
            raise wrong(place, f"a {type(key).__name__.lower()} cannot be a key")
        if key in table:
            raise wrong(place, f"the key '{key}' comes twice")
        table[key] = loader.construct_object(value_node, deep=True)
        table.places[key] = place
    return table


def _text(loader: Any, node: Any, *, templates: Templates) -> Any:
    text = loader.construct_scalar(node)
    return templates.as_bare(text) if not node.style else text


def _place(err: Any, source: Source) -> Place:
    mark = getattr(err, "problem_mark", None) or getattr(err, "context_mark", None)
    return source.at(mark.line + 1, mark.column + 1) if mark else source.at(1, 1)


def _told(err: Any) -> str:
    return str(getattr(err, "problem", None) or getattr(err, "reason", None) or err)
