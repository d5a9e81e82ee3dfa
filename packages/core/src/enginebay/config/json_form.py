"""Configs written as JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

from enginebay.config.places import Table, wrong
from enginebay.config.values import ValueDocument

if TYPE_CHECKING:
    from enginebay.config.limits import Budget
    from enginebay.config.places import Source
    from enginebay.config.templates import Templates

#: A text in quotes. It always matches up to the end where the quote is missing, so that scanning
#: takes linear time for any input.
_STRING = r'"(?:[^"\\]|\\.|\\\Z)*+(?:"|\Z)'
_TOKEN = re.compile(rf"(?P<string>{_STRING})(?P<colon>\s*+:)?|[{{}}]", re.DOTALL)


def parse(source: Source, templates: Templates, budget: Budget) -> ValueDocument:
    """Parse a ``.json`` config.

    Raises:
        ConfigError: It is not JSON, or a key comes twice in one object.
    """
    objects = iter(_keys_of_objects(templates.text))

    def table(pairs: list[tuple[str, Any]]) -> Table:
        offsets = next(objects, [])
        result = Table(pairs)
        for (key, _), offset in zip(pairs, offsets, strict=False):
            place = source.at_offset(offset)
            if key in result.places:
                raise wrong(place, f"the key '{key}' comes twice")
            result.places[key] = place
        return result

    def constant(name: str) -> NoReturn:
        raise wrong(source.at_offset(templates.text.find(name)), f"{name} is not JSON")

    try:
        text = templates.outside_texts(_STRING)
        found = json.loads(text, object_pairs_hook=table, parse_constant=constant)
    except json.JSONDecodeError as err:
        place = source.at(err.lineno, err.colno)
        raise wrong(place, f"this is not JSON: {err.msg}") from err
    except (RecursionError, ValueError) as err:  # nested too deep, or thousands of digits
        raise wrong(source.at(1, 1), f"this JSON cannot be read: {err}") from err
    return ValueDocument(found, source, templates, budget)


def _keys_of_objects(text: str) -> list[list[int]]:
    """Where the keys of each object stand, for the objects in the order in which they close."""
    opened: list[list[int]] = [[]]
    closed: list[list[int]] = []
    for token in _TOKEN.finditer(text):
        if token["colon"]:
            opened[-1].append(token.start())
        elif token[0] == "{":
            opened.append([])
        elif token[0] == "}" and len(opened) > 1:
            closed.append(opened.pop())
    return closed
