"""Snapshots of the containers that hold a model's state: attributes, objects, classes, globals."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from operator import is_not
from types import CodeType, FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from enginebay import torch_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import torch
    from torch import Tensor, nn

#: Nesting depth of objects other than modules whose attributes are recorded: a cache, its layers.
_MAX_OBJECT_DEPTH = 2
#: Types of immutable values without parts.
PLAIN = (bool, int, float, complex, str, bytes, type(None))
#: Stands for a key that does not exist, since None is a valid value.
_ABSENT = object()


class HeldValue(NamedTuple):
    """A value that is reachable from a model, with the path that leads to the value.

    Attributes:
        name: The path of the value: ``encoder.cache['keys']``.
        value: The value.
        owner: The ``nn.Module`` that contains the value; None for a class attribute or a global.
        depth: The number of objects on the path, not counting modules and containers.
    """

    name: str
    value: Any
    owner: Any = None
    depth: int = 0


@dataclass
class HolderSnapshot:
    """A copy of the items of a container (the holder), to find and undo later changes.

    Attributes:
        name: The path of the holder.
        holder: A container, an object's attributes, a class, or the globals of a module.
        items: Key or index → item; the items of a set are the keys.
        item_format: Format string of an item's path: ``{0}`` is the holder's path, ``{1}`` the key.
        owner: The ``nn.Module`` that contains the holder; None for a class or globals.
        depth: The number of objects on an item's path, not counting modules and containers.
        partly: True to compare and restore only the items in ``items``, and to ignore all others.
    """

    name: str
    holder: Any
    items: dict[Any, Any]
    item_format: str = "{0}.{1}"
    owner: Any = None
    depth: int = 0
    partly: bool = False

    def __post_init__(self) -> None:
        self.owner_type = type(self.owner)

    @property
    def _is_script(self) -> bool:
        return isinstance(self.holder, ScriptAttributes)

    def is_valid(self) -> bool:
        """Return False if the owner has another class now, as a lazy module has after a run."""
        return type(self.owner) is self.owner_type

    def held_values(self) -> Iterator[HeldValue]:
        """Yield the items of the snapshot with their paths."""
        for key, value in self.items.items():
            yield HeldValue(self._name(key), value, self.owner, self.depth)

    def changed(self) -> Iterator[str]:
        """Yield the paths of items that were replaced, added or removed since the snapshot."""
        now = _list_items(self.holder)
        are_equal = _are_equal_parts if self._is_script else _are_equal
        for key in self.items if self.partly else {**self.items, **now}:
            if not are_equal(self.items.get(key, _ABSENT), now.get(key, _ABSENT)):
                yield self._name(key)

    def restore(self) -> None:
        """Restore the changed items only, since other threads may be reading unchanged items."""
        holder, items = self.holder, self.items
        if isinstance(holder, list):
            # By identity, since == compares tensors element by element.
            if len(holder) != len(items) or any(map(is_not, holder, items.values())):
                holder[:] = items.values()
        elif isinstance(holder, set):
            holder.intersection_update(items)
            holder.update(items)
        else:
            self._restore_named()

    def _restore_named(self) -> None:
        now = _list_items(self.holder)
        for key, value in self.items.items():
            # A constant of TorchScript cannot be written, so the same values are not either.
            if now.get(key, _ABSENT) is value or (
                self._is_script and not is_tensor(value) and _are_equal_parts(now[key], value)
            ):
                continue
            # The namespace of a class is read-only.
            if isinstance(self.holder, type):
                setattr(self.holder, key, value)
            else:
                self.holder[key] = value
        if self.partly:
            return
        for key in now.keys() - self.items.keys():
            del self.holder[key]
        if list(self.holder) != list(self.items):  # an nn.Sequential runs its modules in this order
            self.holder.clear()
            self.holder.update(self.items)

    def _name(self, key: object) -> str:
        return self.item_format.format(self.name, key).lstrip(".")


class ScriptAttributes:
    """The attributes of a TorchScript module and its submodules by path, other than parameters.

    They are in C++: each access returns the same tensors, but new lists, tuples and dicts.
    """

    def __init__(self, module: torch.jit.ScriptModule) -> None:
        names = torch_private.script_attribute_names(module)
        self._owners: dict[str, tuple[nn.Module, str]] = {}
        for path, owner in module.named_modules():
            others = {name for name, _ in owner.named_children()}
            others |= {name for name, _ in owner.named_parameters(recurse=False)}
            for name in sorted(names - others):
                if hasattr(owner, name):
                    self._owners[f"{path}.{name}".lstrip(".")] = owner, name

    def __iter__(self) -> Iterator[str]:
        return iter(self._owners)

    def __getitem__(self, path: str) -> object:
        owner, name = self._owners[path]
        value: object = getattr(owner, name)
        return value

    def __setitem__(self, path: str, value: object) -> None:
        owner, name = self._owners[path]
        setattr(owner, name, value)


def take_snapshot(held: HeldValue) -> HolderSnapshot | None:
    """Return a snapshot of a value's items; None for a value without items or attributes."""
    import torch

    name, value, owner, depth = held
    if isinstance(value, dict | list | tuple | set):
        path, _, last = name.rpartition(".")
        # Users see these items as attributes of the module.
        if isinstance(value, dict) and last in torch_private.state_attributes():
            return HolderSnapshot(path, value, _list_items(value), owner=owner, depth=depth)
        item_format = "{0}" if isinstance(value, set) else "{0}[{1!r}]"
        return HolderSnapshot(name, value, _list_items(value), item_format, owner, depth)
    if isinstance(value, torch.jit.ScriptModule):
        attributes = ScriptAttributes(value)
        items = _list_items(attributes)
        return HolderSnapshot(name, attributes, items, owner=value, depth=depth, partly=True)
    if isinstance(value, torch.nn.Module):
        return HolderSnapshot(name, vars(value), _list_items(vars(value)), owner=value, depth=depth)
    if depth < _MAX_OBJECT_DEPTH and _is_object(value):
        return HolderSnapshot(
            name, vars(value), _list_items(vars(value)), owner=owner, depth=depth + 1
        )
    return None


def _list_items(holder: Any) -> dict[Any, object]:
    """Return the items of a container by key or index; the items of a set are the keys."""
    if isinstance(holder, list | tuple):
        return dict(enumerate(holder))
    if isinstance(holder, set):
        return dict.fromkeys(holder)
    if isinstance(holder, type):
        return dict(vars(holder))
    if isinstance(holder, ScriptAttributes):
        return {key: holder[key] for key in holder}
    # A subclass of dict may create a new value on each access.
    return {key: dict.__getitem__(holder, key) for key in holder}


def snapshot_surroundings(model: nn.Module) -> Iterator[HolderSnapshot]:
    """Yield snapshots of the classes of a model's modules, and of globals that methods use."""
    seen: defaultdict[int, set[str]] = defaultdict(set)  # by id of the globals
    for cls in dict.fromkeys(cls for part in model.modules() for cls in type(part).__mro__):
        if not _is_user_class(cls):
            continue
        yield HolderSnapshot(
            cls.__qualname__, cls, _select_state(vars(cls), vars(cls)), partly=True
        )
        waiting = list(vars(cls).values())
        while waiting:
            function = waiting.pop()
            if not isinstance(function, FunctionType) or function.__module__ != cls.__module__:
                continue
            scope = function.__globals__
            names = set(_names_in_code(function.__code__)) - seen[id(scope)]
            seen[id(scope)] |= names
            waiting += [scope[name] for name in names if name in scope]
            yield HolderSnapshot(cls.__module__, scope, _select_state(scope, names), partly=True)


def _select_state(scope: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    """Return name → value in ``scope`` for ``names``, except functions, classes and modules."""
    values = {name: scope[name] for name in names if name in scope and not name.startswith("__")}
    return {name: value for name, value in values.items() if _can_be_state(value)}


def _can_be_state(value: object) -> bool:
    if isinstance(value, (*PLAIN, dict, list, set, tuple)) or is_tensor(value):
        return True
    return _is_object(value)


def _is_object(value: object) -> bool:
    """Return True for an instance of a user's class (not Python's or torch's) with attributes."""
    # A class with a user's metaclass is not an object: its namespace is read-only.
    is_class = isinstance(value, type)
    return not is_class and hasattr(value, "__dict__") and _is_user_class(type(value))


def _names_in_code(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in_code(constant)


def _is_user_class(cls: type) -> bool:
    package = cls.__module__.partition(".")[0]
    # Users make objects of SimpleNamespace, though it belongs to the standard library.
    return cls is SimpleNamespace or package not in {*sys.stdlib_module_names, "torch"}


def _are_equal(one: Any, other: Any) -> bool:
    """Return True for the same object, or for equal numbers, texts or tensors."""
    if one is other or type(one) is not type(other):
        return one is other
    if is_tensor(one):
        return not one.is_inference() and same_content(one, other)
    return isinstance(one, PLAIN) and bool(one == other)


def _are_equal_parts(one: Any, other: Any) -> bool:
    """Compare the values of TorchScript attributes, of which containers are copies."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_are_equal_parts, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            _are_equal_parts(value, other[key]) for key, value in one.items()
        )
    # Packed weights of 8 bits are an object, which each access wraps anew.
    return _are_equal(one, other) if isinstance(one, PLAIN) or is_tensor(one) else True


def same_content(one: Tensor, other: Tensor) -> bool:
    """Return True if two tensors have the same content; NaN is equal to NaN."""
    if not (has_content(one) and has_content(other)):
        return False
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())


def has_content(tensor: Tensor) -> bool:
    """Return True if a tensor's elements can be compared: strided, not nested, not on ``meta``."""
    import torch

    return tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_meta


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Return True for a torch tensor."""
    import torch

    return isinstance(value, torch.Tensor)
