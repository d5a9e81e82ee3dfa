"""Nested inputs and outputs as leaves with dotted paths.

torch's pytree treats a dataclass as a leaf unless it is registered, and a model may return such a
dataclass. So this module splits mappings, sequences, named tuples and dataclasses itself, and lets
pytree split the other registered types. The module also splits a decoder's key-value cache itself,
since transformers registers only some of its caches, and not in every version.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from enginebay import torch_private
from enginebay.tensors.caches import cache_items, is_cache, rebuild_cache


def leaves(value: object, path: str = "", *, caches: bool = True) -> Iterator[tuple[str, object]]:
    """Yield every leaf with its dotted path, in order.

    Args:
        value: A leaf or a container.
        path: Prefix of every path.
        caches: True to split a decoder's key-value caches into tensors; if False, each cache is a
            leaf.

    Example:
        >>> list(leaves({"logits": 1, "aux": [2, 3]}))
        [('logits', 1), ('aux.0', 2), ('aux.1', 3)]
    """
    parts = _list_children(value, caches=caches)
    if parts is None:
        yield path, value
        return
    for key, child in parts:
        yield from leaves(child, f"{path}.{key}" if path else key, caches=caches)


def output_leaves(result: object, *, caches: bool = True) -> Iterator[tuple[str, object]]:
    """Yield every leaf of the value that a forward returned, with the path of the leaf.

    A single tensor has the path ``output``; the entries of a list or tuple have ``output_0`` ….

    Args:
        result: The value that the forward returned.
        caches: True to split a decoder's key-value caches into tensors; if False, each cache is a
            leaf.
    """
    if _list_children(result, caches=caches) is None:
        yield "output", result
    elif isinstance(result, list | tuple) and not hasattr(result, "_fields"):
        for index, part in enumerate(result):
            yield from leaves(part, f"output_{index}", caches=caches)
    else:
        yield from leaves(result, caches=caches)


def map_leaves(function: Callable[[Any], object], value: object) -> Any:
    """Return a copy of a nested value in which ``function(leaf)`` replaces every leaf.

    Example:
        >>> map_leaves(lambda n: n * 10, {"a": 1, "b": (2, 3)})
        {'a': 10, 'b': (20, 30)}
    """
    parts = _list_children(value)
    if parts is None:
        return function(value)
    return _rebuild_container(value, [map_leaves(function, child) for _, child in parts])


def map_named(function: Callable[[str, Any], object], value: object, path: str) -> object:
    """Return a copy of a nested value in which ``function(path, leaf)`` replaces every leaf.

    Example:
        >>> map_named(lambda path, n: f"{path} is {n}", [1, 2], "x")
        ['x.0 is 1', 'x.1 is 2']
    """
    paths = iter([leaf_path for leaf_path, _ in leaves(value, path)])
    return map_leaves(lambda leaf: function(next(paths), leaf), value)


def _list_children(value: object, *, caches: bool = True) -> list[tuple[str, object]] | None:
    """Return a container's items by key; None for a leaf."""
    if is_cache(value):
        return cache_items(value) if caches else None
    if isinstance(value, Mapping):
        return [(str(key), child) for key, child in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, list | tuple):
        return _number_children(value)
    # is_dataclass() is true for the class as well.
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return _list_pytree_children(value)


def _number_children(values: Sequence[object]) -> list[tuple[str, object]]:
    return [(str(index), child) for index, child in enumerate(values)]


def _list_pytree_children(value: object) -> list[tuple[str, object]] | None:
    flat = torch_private.flatten_node(value)
    return None if flat is None else _number_children(flat[0])


def _rebuild_container(value: Any, parts: list[object]) -> object:
    if is_cache(value):
        return rebuild_cache(value, parts)
    if isinstance(value, Mapping):
        return _rebuild_mapping(value, zip(value, parts, strict=True))
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(parts)
    if isinstance(value, list | tuple):
        return type(value)(parts)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return _rebuild_dataclass(value, zip(names, parts, strict=True))
    flat = torch_private.flatten_node(value)
    assert flat is not None  # as it was when the parts were listed
    return torch_private.unflatten_tree(parts, flat[1])


def _rebuild_mapping(mapping: Any, items: Iterator[tuple[object, object]]) -> object:
    if type(mapping) is dict:  # torch.export's strict mode cannot trace copy.copy of a dict
        return dict(items)
    # Key by key: transformers' ModelOutput forbids update() and sets an attribute for each key.
    clone = copy.copy(mapping)
    for key, part in items:
        clone[key] = part
    return clone


def _rebuild_dataclass(instance: object, items: Iterator[tuple[str, object]]) -> object:
    # Not dataclasses.replace(), which runs __post_init__ again and refuses init=False fields.
    clone = copy.copy(instance)
    for name, part in items:
        object.__setattr__(clone, name, part)
    return clone
