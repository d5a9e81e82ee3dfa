"""The caches of transformers' decoders, as containers of the tensors that their layers keep."""

from __future__ import annotations

import copy
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A layer's attributes under the names that ONNX decoders give them.
_NAMES = {"keys": "key", "values": "value"}


def cache_items(cache: Any) -> list[tuple[str, Any]]:
    """List a cache's layers by number, or a layer's tensors by name."""
    items: list[tuple[str, Any]] = []
    for attribute in _attributes(cache):
        part = getattr(cache, attribute)
        if attribute == "layers":
            items.extend((str(number), layer) for number, layer in enumerate(part))
        else:
            items.append((_NAMES.get(attribute, attribute), part))
    return items


def rebuilt_cache(cache: Any, parts: Sequence[Any]) -> Any:
    """Return the same cache, or layer, with these items in the place of its own."""
    clone = copy.copy(cache)
    # A forward writes into these, and the next one must find them as they were.
    for name, part in vars(cache).items():
        if type(part) in (dict, list, set):
            setattr(clone, name, part.copy())
    rest = iter(parts)
    for attribute in _attributes(cache):
        many = attribute == "layers"
        setattr(clone, attribute, [next(rest) for _ in cache.layers] if many else next(rest))
    return clone


def is_cache(value: Any) -> bool:
    """True for a cache of transformers, or a layer of one.

    Its classes are looked up where they are loaded already: whoever has a cache has them.
    """
    module = sys.modules.get("transformers.cache_utils")
    names = ("Cache", "CacheLayerMixin", "LinearAttentionCacheLayerMixin")
    return any(isinstance(value, getattr(module, name, ())) for name in names)


def _attributes(cache: Any) -> list[str]:
    """The attributes that may hold tensors; private ones, such as a window's size, are constant."""
    found = vars(cache).items()
    return [
        name
        for name, part in found
        if name == "layers" or not (name.startswith("_") or _is_constant(part))
    ]


def _is_constant(part: Any) -> bool:
    import torch

    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list | tuple | set):
        return all(map(_is_constant, part))
    # Their own types alone: what stands for a tensor may be a kind of number.
    plain = (bool, int, float, str, type(None), torch.dtype, torch.device)
    return type(part) in plain or isinstance(part, type)
