"""A model as its owner left it: what a deployment stores in it is taken out again."""

from __future__ import annotations

from contextlib import contextmanager
from operator import is_not
from typing import TYPE_CHECKING, Any, TypeAlias

from enginebay.models.forward import detached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn

    from enginebay.models.sources import ModelSource

_Holder: TypeAlias = dict[Any, Any] | list[Any] | set[Any]


@contextmanager
def unchanged(source: ModelSource) -> Iterator[None]:
    """Run and export a model inside the block; afterwards it is exactly as it was.

    That holds for its modules' attributes, the containers in them, and the content of its buffers
    and of other tensors that are no parameters. Inside, a tensor that a forward has computed with
    gradients on and kept is replaced by a copy without: no exporter takes such a constant.
    """
    if source.model is None:
        yield
        return
    seen: set[int] = set()
    kept = [_Module(module, seen) for module in source.module.modules()]
    copies: dict[int, Tensor] = {}
    try:
        for module in kept:
            module.detach(copies)
        yield
    finally:
        for module in kept:
            module.restore()


class _Module:
    """The state of a module when this is made: attributes, the containers in them, tensors.

    Args:
        module: The module.
        seen: The ids of what is noted already; that of this module is added.
    """

    def __init__(self, module: nn.Module, seen: set[int]) -> None:
        self._module = module
        self._type = type(module)
        self._before = [(holder, _items(holder)) for holder in _holders(vars(module), seen)]
        self._tensors: list[tuple[Tensor, int, Tensor]] = []
        for _, items in self._before:
            for value in items.values():
                # An inference tensor has no version; detach() puts a copy in its place.
                if _is_state(value) and id(value) not in seen and not value.is_inference():
                    seen.add(id(value))
                    self._tensors.append((value, value._version, detached(value)))

    def detach(self, copies: dict[int, Tensor]) -> None:
        """Replace what cannot be traced; a tensor that is kept twice by the same copy."""
        from enginebay.tensors import map_leaves

        def replaced(leaf: Any) -> Any:
            return copies.setdefault(id(leaf), detached(leaf)) if _is_untraceable(leaf) else leaf

        for holder, items in self._before:
            if isinstance(holder, set):  # nobody looks a tensor up in one
                continue
            for key, value in items.items():
                inside = value if isinstance(value, tuple) else (value,)
                if any(map(_is_untraceable, inside)):
                    holder[key] = map_leaves(replaced, value)

    def restore(self) -> None:
        """Put everything back, unless the first forward made a lazy module another one."""
        import torch

        if type(self._module) is not self._type:
            return
        for holder, items in self._before:
            _restore(holder, items)
        for tensor, version, content in self._tensors:
            if tensor._version != version:
                with torch.no_grad():
                    tensor.copy_(content)


def _holders(value: Any, seen: set[int]) -> Iterator[_Holder]:
    """A container and those in it, each once."""
    if id(value) in seen or not isinstance(value, dict | list | set | tuple):
        return
    seen.add(id(value))
    if not isinstance(value, tuple):
        yield value
    for item in value.values() if isinstance(value, dict) else value:
        yield from _holders(item, seen)


def _items(holder: _Holder) -> dict[Any, Any]:
    """The items of a container by key, by index, or, of a set, as keys."""
    if isinstance(holder, dict):
        return dict(holder)
    return dict.fromkeys(holder) if isinstance(holder, set) else dict(enumerate(holder))


def _restore(holder: _Holder, items: dict[Any, Any]) -> None:
    """Put the items back; touches nothing that is as it was, since other threads may read it."""
    if isinstance(holder, list):
        if len(holder) != len(items) or any(map(is_not, holder, items.values())):
            holder[:] = items.values()
        return
    if isinstance(holder, set):
        holder.intersection_update(items)
        holder.update(items)
        return
    for key in holder.keys() - items.keys():
        del holder[key]
    for key, value in items.items():
        if holder.get(key, holder) is not value:
            holder[key] = value
    if list(holder) != list(items):  # the order of modules is the order in which they run
        holder.clear()
        holder.update(items)


def _is_state(value: Any) -> bool:
    """True for a tensor that is no parameter, and that a lazy module has not yet to make."""
    import torch

    if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
        return False
    return not torch.nn.parameter.is_lazy(value)


def _is_untraceable(value: Any) -> bool:
    """True for such a tensor if it has a history, or was made for inference only."""
    return _is_state(value) and (value.requires_grad or value.is_inference())
