"""Key-value caches of transformers' decoders, treated as containers of their layers' tensors."""

from __future__ import annotations

import copy
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A layer's attribute → its name in decoders that are exported to ONNX.
_ONNX_NAMES = {"keys": "key", "values": "value"}


def cache_items(cache: object) -> list[tuple[str, object]]:
    """Return a cache as pairs of index and layer, or a cache layer as pairs of name and tensor."""
    items: list[tuple[str, object]] = []
    for attribute in _tensor_attributes(cache):
        part = getattr(cache, attribute)
        if attribute == "layers":
            items.extend((str(number), layer) for number, layer in enumerate(part))
        else:
            items.append((_ONNX_NAMES.get(attribute, attribute), part))
    return items


def rebuild_cache(cache: Any, parts: Sequence[object]) -> object:
    """Return a copy of a cache or a cache layer, in which ``parts`` replace the layers or tensors.

    Args:
        cache: The cache or the cache layer.
        parts: The new layers or tensors, in the order of :func:`cache_items`.
    """
    clone = copy.copy(cache)
    # A forward writes into these containers; the original must stay unchanged for the next one.
    for name, part in vars(cache).items():
        if type(part) in (dict, list, set):
            setattr(clone, name, part.copy())
    remaining = iter(parts)
    for attribute in _tensor_attributes(cache):
        if attribute == "layers":
            setattr(clone, attribute, [next(remaining) for _ in cache.layers])
        else:
            setattr(clone, attribute, next(remaining))
    return clone


def is_cache(value: object) -> bool:
    """Return True for a transformers cache or a layer of one."""
    # Without an import: an instance can exist only if transformers is loaded already.
    module = sys.modules.get("transformers.cache_utils")
    names = ("Cache", "CacheLayerMixin", "LinearAttentionCacheLayerMixin")
    return any(isinstance(value, getattr(module, name, ())) for name in names)


def _tensor_attributes(cache: object) -> list[str]:
    """Return the names of the attributes that may contain tensors: not private, not constant."""
    return [
        name
        for name, part in vars(cache).items()
        if name == "layers" or not (name.startswith("_") or _is_constant(part))
    ]


def _is_constant(part: object) -> bool:
    import torch

    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list | tuple | set):
        return all(map(_is_constant, part))
    # Exact types: a stand-in for a tensor may be a subclass of a number.
    plain = (bool, int, float, str, type(None), torch.dtype, torch.device)
    return type(part) in plain or isinstance(part, type)
