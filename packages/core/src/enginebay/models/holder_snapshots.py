"""Where a model holds values: attributes, containers and objects, its classes and globals."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from operator import is_not
from types import CodeType, FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torch import Tensor, nn

#: How far objects that are no modules are followed: a cache, and the layers in it.
_OBJECTS_DEEP = 2
#: What holds nothing and cannot be changed.
PLAIN = (bool, int, float, complex, str, bytes, type(None))
_ABSENT = object()


class Found(NamedTuple):
    """Something that a model holds.

    Attributes:
        name: Where it is.
        value: What it is.
        owner: The module that it belongs to; None around the model.
        depth: How many objects that are no modules lead to it.
    """

    name: str
    value: Any
    owner: Any = None
    depth: int = 0


@dataclass
class Place:
    """A holder of values, and what was in it: by key, by index, or, of a set, as keys.

    Attributes:
        name: Where it is.
        holder: A container, an object's attributes, a class, or the globals of a module.
        items: What was in it.
        within: The form of an item's name: of the holder's, and the key.
        owner: The module that it belongs to.
        depth: How many objects that are no modules lead to what is in it.
        partly: True if more is in it that is not looked at.
    """

    name: str
    holder: Any
    items: dict[Any, Any]
    within: str = "{0}.{1}"
    owner: Any = None
    depth: int = 0
    partly: bool = False

    def __post_init__(self) -> None:
        self.owner_type = type(self.owner)

    def is_there(self) -> bool:
        """True unless its module has become another one, as lazy modules do."""
        return type(self.owner) is self.owner_type

    def inside(self) -> Iterator[Found]:
        """What was in it."""
        for key, value in self.items.items():
            yield Found(self._name(key), value, self.owner, self.depth)

    def changed(self) -> Iterator[str]:
        """The names of what was replaced, added or removed."""
        now = _items(self.holder)
        for key in self.items if self.partly else {**self.items, **now}:
            if not _equal(self.items.get(key, _ABSENT), now.get(key, _ABSENT)):
                yield self._name(key)

    def restore(self) -> None:
        """Put the items back; touches nothing that is as it was, since other threads may read."""
        holder, items = self.holder, self.items
        if isinstance(holder, list):
            if len(holder) != len(items) or any(map(is_not, holder, items.values())):
                holder[:] = items.values()
        elif isinstance(holder, set):
            holder.intersection_update(items)
            holder.update(items)
        else:
            self._restore_named()

    def _restore_named(self) -> None:
        now = _items(self.holder)
        for key, value in self.items.items():
            if now.get(key, _ABSENT) is value:
                continue
            if isinstance(self.holder, type):
                setattr(self.holder, key, value)
            else:
                self.holder[key] = value
        if self.partly:
            return
        for key in now.keys() - self.items.keys():
            del self.holder[key]
        if list(self.holder) != list(self.items):  # modules run in the order that they have there
            self.holder.clear()
            self.holder.update(self.items)

    def _name(self, key: Any) -> str:
        return self.within.format(self.name, key).lstrip(".")


def place_of(found: Found) -> Place | None:
    """How something holds values; None where it holds none, or none of the model's."""
    import torch

    name, value, owner, depth = found
    if isinstance(value, dict | list | tuple | set):
        path, _, last = name.rpartition(".")
        if isinstance(value, dict) and last in ("_parameters", "_buffers", "_modules"):
            return Place(path, value, _items(value), owner=owner, depth=depth)
        within = "{0}" if isinstance(value, set) else "{0}[{1!r}]"
        return Place(name, value, _items(value), within, owner, depth)
    if isinstance(value, torch.nn.Module):
        return Place(name, vars(value), _items(vars(value)), owner=value, depth=depth)
    if depth < _OBJECTS_DEEP and _is_object(value):
        return Place(name, vars(value), _items(vars(value)), owner=owner, depth=depth + 1)
    return None


def _items(holder: Any) -> dict[Any, Any]:
    """The items of a holder by key, by index, or, of a set, as keys."""
    if isinstance(holder, list | tuple):
        return dict(enumerate(holder))
    if isinstance(holder, set):
        return dict.fromkeys(holder)
    if isinstance(holder, type):
        return dict(vars(holder))
    # What a dict of another class gives may be made for whoever asks.
    return {key: dict.__getitem__(holder, key) for key in holder}


def places_around(model: nn.Module) -> Iterator[Place]:
    """The data in the classes of a model's modules, and in the globals that their files name."""
    seen: defaultdict[int, set[str]] = defaultdict(set)  # by the globals, which classes share
    for cls in dict.fromkeys(cls for each in model.modules() for cls in type(each).__mro__):
        if not _is_of_users(cls):
            continue
        yield Place(cls.__qualname__, cls, _data(vars(cls), vars(cls)), partly=True)
        waiting = list(vars(cls).values())
        while waiting:
            function = waiting.pop()
            if not isinstance(function, FunctionType) or function.__module__ != cls.__module__:
                continue
            scope = function.__globals__
            names = set(_names(function.__code__)) - seen[id(scope)]
            seen[id(scope)] |= names
            waiting += [scope[name] for name in names if name in scope]
            yield Place(cls.__module__, scope, _data(scope, names), partly=True)


def _data(scope: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """What can be state among the values of some names: no functions, classes and modules."""
    found = {name: scope[name] for name in names if name in scope and not name.startswith("__")}
    return {name: value for name, value in found.items() if _can_be_state(value)}


def _can_be_state(value: Any) -> bool:
    if isinstance(value, (*PLAIN, dict, list, set, tuple)) or is_tensor(value):
        return True
    return _is_object(value)


def _is_object(value: Any) -> bool:
    """True for an object with attributes, of a class of the user's or of a library's; no class."""
    is_class = isinstance(value, type)  # one of a metaclass of theirs too
    return not is_class and hasattr(value, "__dict__") and _is_of_users(type(value))


def _names(code: CodeType) -> Iterator[str]:
    """What a function and those inside of it name."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_of_users(cls: type) -> bool:
    """True for a class that is neither Python's own nor torch's: those have no state to look at."""
    package = cls.__module__.partition(".")[0]
    return cls is SimpleNamespace or package not in {*sys.stdlib_module_names, "torch"}


def _equal(one: Any, other: Any) -> bool:
    """True for the same object, or for equal numbers, texts or tensors."""
    if one is other or type(one) is not type(other):
        return one is other
    if is_tensor(one):
        return not one.is_inference() and same_content(one, other)
    return isinstance(one, PLAIN) and bool(one == other)


def same_content(one: Tensor, other: Tensor) -> bool:
    """True if two tensors have the same content; NaN is equal to NaN."""
    if not (has_content(one) and has_content(other)):
        return False
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())


def has_content(tensor: Tensor) -> bool:
    """True for a tensor whose content torch can compare."""
    import torch

    return tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_meta


def is_tensor(value: Any) -> bool:
    """True for a tensor."""
    import torch

    return isinstance(value, torch.Tensor)
