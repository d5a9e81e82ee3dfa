"""Example inputs bound to the parameters of a model's ``forward``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from enginebay import torch_private
from enginebay.errors import InputError, nearest
from enginebay.sources import as_script_number, forward_parameters
from enginebay.state import copy_detached
from enginebay.tensors import (
    choose_unused_name,
    is_cache,
    leaves,
    map_leaves,
    map_named,
    to_numpy,
    to_torch,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor, nn


#: Types of arguments that a forward cannot change.
_CONSTANTS = (int, float, complex, str, bytes, type(None))


class _TensorSlot(int):
    """Placeholder for an input tensor among the arguments: an integer, the tensor's index."""


class _CopiedObject:  # not a dataclass, whose fields map_leaves() would visit
    def __init__(self, value: object) -> None:
        self.value = value


@dataclass(frozen=True)
class Call:
    """The arguments of ``forward``, with a placeholder (slot) for each tensor.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
        mutated: Indices of the inputs that the forward writes into.
        caches: True if a decoder's cache, possibly an empty one, is among the arguments.
        notes: Messages for the user about arguments that stay constant but may influence outputs.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    mutated: frozenset[int] = frozenset()
    caches: bool = False
    notes: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """True if each argument is one tensor, passed by position."""
        return not self.kwargs and all(isinstance(arg, _TensorSlot) for arg in self.args)

    def fill(self, tensors: Sequence[Tensor]) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return the arguments with ``tensors`` in the slots, and copies of all other objects.

        Objects are copied since a forward may change them: a cache grows with each call, but the
        next call must get the cache as it was before.
        """
        # A fast path for most models, which matters in loops over small items.
        if self.is_plain:
            return tuple(tensors[slot] for slot in self.args), {}
        from enginebay.state import CopyObjects

        copied = CopyObjects()

        def fill_leaf(leaf: object) -> object:
            if isinstance(leaf, _TensorSlot):
                return tensors[leaf]
            return copied(leaf.value) if isinstance(leaf, _CopiedObject) else leaf

        args, kwargs = map_leaves(fill_leaf, (self.args, self.kwargs))
        return args, kwargs

    @classmethod
    def record(
        cls, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[Self, dict[str, Tensor]]:
        """Return a call with these arguments, and a dict of copies of the tensors in them.

        The arguments need not match the parameters of any ``forward``.
        """
        tensors: dict[str, Tensor] = {}
        put = _SlotMaker(tensors)
        positional = tuple(put(f"arg_{index}", value) for index, value in enumerate(args))
        keywords = {name: put(name, value) for name, value in kwargs.items()}
        copies = {name: copy_detached(tensor) for name, tensor in tensors.items()}
        return cls(positional, keywords, caches=True), copies


def bind_arguments(model: nn.Module, args: object) -> tuple[Call, dict[str, Tensor]]:
    """Bind example inputs to the parameters of ``forward``.

    Args:
        model: The model.
        args: The example inputs, as ``read_signature`` takes them.

    Returns:
        The call, and its tensors by name.

    Raises:
        InputError: The inputs do not match ``forward``, or contain no tensor.
    """
    parameters = forward_parameters(model)
    positional, keywords = _split_arguments(parameters, args)
    # Before binding, whose TypeError suggests no name.
    if error := find_misspelled_input(model, keywords):
        raise error
    bound = _bind_parameters(parameters, positional, keywords)
    named = _keyword_names(model, parameters, bound)
    tensors: dict[str, Tensor] = {}
    put = _SlotMaker(tensors)
    call = Call((), {})
    for name, value in bound.items():
        parameter = parameters.parameters[name]
        value = as_script_number(parameter, value)
        call = _add_argument(call, parameter, _make_slots(parameter, value, put), name in named)
    if not tensors:
        raise InputError(f"the example inputs for forward{parameters} contain no tensor")
    caches = any(is_cache(leaf) for _, leaf in leaves((positional, keywords), caches=False))
    return replace(call, caches=caches, notes=tuple(put.notes)), tensors


def _keyword_names(
    model: nn.Module, parameters: inspect.Signature, bound: Mapping[str, object]
) -> set[str]:
    # An exported program must be called as it was captured. For any other model, positions are
    # possible up to the first parameter that is left out.
    spec = torch_private.argument_structure_of(model)
    if spec is not None and spec.num_children == 2:
        return set(spec.child(1).context)
    by_keyword = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    params = list(parameters.parameters.values())
    gap = next((i for i, param in enumerate(params) if param.name not in bound), len(params))
    return {param.name for i, param in enumerate(params) if i > gap or param.kind in by_keyword}


def _add_argument(call: Call, parameter: inspect.Parameter, value: Any, named: bool) -> Call:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return Call((*call.args, *value), call.kwargs)
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return Call(call.args, call.kwargs | value)
    if named:
        return Call(call.args, call.kwargs | {parameter.name: value})
    return Call((*call.args, value), call.kwargs)


def find_misspelled_input(model: nn.Module, names: Iterable[object]) -> InputError | None:
    """Return an error if a name looks like a misspelled parameter of ``forward``, else None.

    If ``forward`` accepts any name (``**kwargs``), no name counts as misspelled.
    """
    parameters = forward_parameters(model).parameters
    if any(param.kind is inspect.Parameter.VAR_KEYWORD for param in parameters.values()):
        return None
    for name in names:
        if name not in parameters and (close := nearest(str(name), parameters)):
            return InputError(
                f"unknown input '{name}'; the parameters of forward: {', '.join(parameters)}",
                hint=f"did you mean '{close}'?",
            )
    return None


def _bind_parameters(
    parameters: inspect.Signature, positional: tuple[object, ...], keywords: dict[str, object]
) -> dict[str, object]:
    try:
        return parameters.bind(*positional, **keywords).arguments
    except TypeError as err:
        message = f"the example inputs do not match forward{parameters}: {err}"
        raise InputError(message) from err


def _split_arguments(
    parameters: inspect.Signature, args: object
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Split the example inputs into positional and keyword arguments, and return both.

    A dict contains keyword arguments if ``forward`` accepts all keys. This is also assumed if
    ``forward`` has a parameter for at least one key: binding the dict then raises an error that
    names a wrong key. Any other dict is one positional argument.
    """
    if isinstance(args, Mapping):
        keywords = dict(args)
        return ((), keywords) if _are_keywords(parameters, (), keywords) else ((args,), {})
    # A named tuple is one argument, not several.
    if not isinstance(args, list | tuple) or hasattr(args, "_fields"):
        return (args,), {}
    if args and isinstance(args[-1], Mapping) and _are_keywords(parameters, args[:-1], args[-1]):
        return tuple(args[:-1]), dict(args[-1])
    return tuple(args), {}


def _are_keywords(
    parameters: inspect.Signature, positional: Sequence[object], keywords: Mapping[Any, object]
) -> bool:
    if not all(isinstance(key, str) for key in keywords):
        return False
    try:
        parameters.bind(*positional, **keywords)
    except TypeError:
        return not positional and any(key in parameters.parameters for key in keywords)
    return True


def _make_slots(parameter: inspect.Parameter, value: Any, put: _SlotMaker) -> object:
    """Return an argument with slots (placeholders) for tensors, and copies of other objects."""
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return tuple(put(f"{parameter.name}_{index}", part) for index, part in enumerate(value))
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return {key: put(key, part) for key, part in value.items()}
    return put(parameter.name, value)


class _SlotMaker:
    """Replaces the tensors in arguments by slots (placeholders), and other objects by copies.

    Args:
        tensors: Dict to which the tensors are added, by name.

    Attributes:
        notes: Messages for the user about objects that stay constant or that all runs share.
    """

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        from enginebay.state import CopyObjects

        self.notes: list[str] = []
        self._tensors = tensors
        self._copied = CopyObjects()

    def __call__(self, name: str, value: object) -> object:
        """Return argument ``name``, with slots for its tensors and copies of its other objects."""
        return map_named(self._replace_leaf, value, name)

    def _replace_leaf(self, path: str, leaf: object) -> object:
        tensor = _as_tensor(leaf)
        if tensor is not None:
            self._tensors[choose_unused_name(path, self._tensors)] = tensor
            return _TensorSlot(len(self._tensors) - 1)
        if isinstance(leaf, _CONSTANTS):
            return leaf
        description = f"argument '{path}' is of type {type(leaf).__name__}"
        before = self._copied.tensors
        try:
            copied = self._copied(leaf)
        except Exception:  # noqa: BLE001  # a lock or a generator cannot be copied
            self.notes.append(f"{description}, which cannot be copied: all runs share the object")
            return leaf
        if tensors := self._copied.tensors - before:
            self.notes.append(
                f"{description}: its {tensors} tensors are constants; to make them inputs, "
                "register the type with torch.utils._pytree.register_pytree_node"
            )
        return _CopiedObject(copied)


def _as_tensor(leaf: object) -> Tensor | None:
    import numpy as np
    import torch

    if isinstance(leaf, np.ndarray):
        # A copy, since the caller may change the array later.
        return to_torch(to_numpy(leaf).copy(), torch.device("cpu"))
    return leaf if isinstance(leaf, torch.Tensor) else None
