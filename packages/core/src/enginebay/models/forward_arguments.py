"""Example inputs bound to the parameters of a model's ``forward``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from enginebay.errors import InputError, nearest
from enginebay.models.forward_pass import detached
from enginebay.models.input_names import choose_unused_name
from enginebay.tensors import is_cache, leaves, map_leaves, map_named, to_numpy, to_torch

if TYPE_CHECKING:
    from torch import Tensor, nn


#: What a forward cannot change.
_CONSTANTS = (int, float, complex, str, bytes, type(None))


class _Slot(int):
    """The place of one input tensor among the arguments, by its index."""


class _Object:  # no dataclass, which would be a container of arguments
    """An object among the arguments, which each call gets a copy of."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True)
class Call:
    """The arguments of ``forward`` with a slot wherever a tensor goes; the rest is constant.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
        mutated: Indices of the inputs that the forward writes into.
        caches: True if a decoder's cache is among the arguments, even one that is empty yet.
        notes: For the user: what of the arguments is no input though it may matter.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    mutated: frozenset[int] = frozenset()
    caches: bool = False
    notes: tuple[str, ...] = ()

    def fill(self, tensors: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with these tensors in the slots, and a copy of every object.

        A forward may change what it gets: a cache grows with each call, and the next call must
        see it as the caller passed it.
        """
        if not self.kwargs and all(isinstance(arg, _Slot) for arg in self.args):
            return tuple(tensors[slot] for slot in self.args), {}
        from enginebay.models.object_copies import CopyObjects

        copied = CopyObjects()

        def put(leaf: Any) -> Any:
            if isinstance(leaf, _Slot):
                return tensors[leaf]
            return copied(leaf.value) if isinstance(leaf, _Object) else leaf

        args, kwargs = map_leaves(put, (self.args, self.kwargs))
        return args, kwargs

    @classmethod
    def record(
        cls, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Self, dict[str, Tensor]]:
        """A call as it is made, whatever parameters ``forward`` has; and copies of its tensors."""
        tensors: dict[str, Tensor] = {}
        put = _Put(tensors)
        positional = tuple(put(f"arg_{index}", value) for index, value in enumerate(args))
        keywords = {name: put(name, value) for name, value in kwargs.items()}
        copies = {name: detached(tensor) for name, tensor in tensors.items()}
        return cls(positional, keywords, caches=True), copies


def bind_arguments(model: nn.Module, args: Any) -> tuple[Call, dict[str, Tensor]]:
    """Example inputs, as ``read_signature`` takes them: the call, and its tensors by name.

    Raises:
        InputError: They do not fit ``forward``, or hold no tensor.
    """
    parameters = forward_parameters(model)
    positional, keywords = _split(parameters, args)
    if error := misspelled_input(model, keywords):
        raise error
    bound = _bound(parameters, positional, keywords)
    named = _named_arguments(model, parameters, bound)
    tensors: dict[str, Tensor] = {}
    put = _Put(tensors)
    call = Call((), {})
    for name, value in bound.items():
        parameter = parameters.parameters[name]
        call = _extended(call, parameter, _slotted(parameter, value, put), name in named)
    if not tensors:
        raise InputError(f"the example inputs for forward{parameters} hold no tensor")
    caches = any(is_cache(leaf) for _, leaf in leaves((positional, keywords), caches=False))
    return replace(call, caches=caches, notes=tuple(put.notes)), tensors


def _named_arguments(
    model: Any, parameters: inspect.Signature, bound: Mapping[str, Any]
) -> set[str]:
    """The parameters that are passed by keyword; the others are passed by position.

    An exported program's module insists on keywords where it was captured with keywords, and on
    positions elsewhere. Any other model takes positions up to the first parameter left out.
    """
    spec = getattr(model, "_in_spec", None)
    if spec is not None and spec.num_children == 2:
        return set(spec.child(1).context)
    by_keyword = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    given = list(parameters.parameters.values())
    gap = next((i for i, one in enumerate(given) if one.name not in bound), len(given))
    return {one.name for i, one in enumerate(given) if i > gap or one.kind in by_keyword}


def _extended(call: Call, parameter: inspect.Parameter, value: Any, named: bool) -> Call:
    """The call with one more argument."""
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return Call((*call.args, *value), call.kwargs)
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return Call(call.args, call.kwargs | value)
    if named:
        return Call(call.args, call.kwargs | {parameter.name: value})
    return Call((*call.args, value), call.kwargs)


def misspelled_input(model: nn.Module, named: Mapping[Any, Any]) -> InputError | None:
    """Build the error of a name that is no parameter of ``forward``, and much like one that is.

    None where every name is a parameter, or like none, or where ``forward`` takes any name.
    """
    parameters = forward_parameters(model).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return None
    for name in named:
        if name not in parameters and (close := nearest(str(name), parameters)):
            return InputError(
                f"unknown input '{name}': forward takes {', '.join(parameters)}",
                hint=f"did you mean '{close}'?",
            )
    return None


def forward_parameters(model: nn.Module) -> inspect.Signature:
    """The parameters of a model's ``forward``, without ``self``; TorchScript's included."""
    try:
        return inspect.signature(model.forward)
    except ValueError:
        return _script_parameters(model)


def required_parameters(function: Callable[..., Any]) -> list[str]:
    """The parameters without which a callable cannot be called; none where it hides them."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]


def _script_parameters(model: Any) -> inspect.Signature:
    """A TorchScript module loaded from a file hides its parameters from :mod:`inspect`."""
    arguments = [arg for arg in model.forward.schema.arguments if arg.name != "self"]
    return inspect.Signature([_script_parameter(arg) for arg in arguments])


def _script_parameter(argument: Any) -> inspect.Parameter:
    empty = inspect.Parameter.empty
    default = argument.default_value if argument.has_default_value() else empty
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(argument.name, kind, default=default)


def _bound(
    parameters: inspect.Signature, positional: tuple[Any, ...], keywords: dict[str, Any]
) -> dict[str, Any]:
    try:
        return parameters.bind(*positional, **keywords).arguments
    except TypeError as err:
        message = f"the example inputs do not fit forward{parameters}: {err}"
        raise InputError(message) from err


def _split(parameters: inspect.Signature, args: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as positional and keyword arguments.

    A dict is keyword arguments where its keys fit ``forward``, or name at least one parameter of
    it (so that the message is about the others); else it is one argument that is a dict.
    """
    if isinstance(args, Mapping):
        keywords = dict(args)
        return ((), keywords) if _are_keywords(parameters, (), keywords) else ((args,), {})
    if not isinstance(args, list | tuple) or hasattr(args, "_fields"):
        return (args,), {}
    if args and isinstance(args[-1], Mapping) and _are_keywords(parameters, args[:-1], args[-1]):
        return tuple(args[:-1]), dict(args[-1])
    return tuple(args), {}


def _are_keywords(
    parameters: inspect.Signature, positional: Sequence[Any], keywords: Mapping[Any, Any]
) -> bool:
    if not all(isinstance(key, str) for key in keywords):
        return False
    try:
        parameters.bind(*positional, **keywords)
    except TypeError:
        return not positional and any(key in parameters.parameters for key in keywords)
    return True


def _slotted(parameter: inspect.Parameter, value: Any, put: _Put) -> Any:
    """The argument with a slot for every tensor, and its objects copied."""
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        named = [(f"{parameter.name}_{index}", part) for index, part in enumerate(value)]
        return tuple(put(name, part) for name, part in named)
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return {key: put(key, part) for key, part in value.items()}
    return put(parameter.name, value)


class _Put:
    """Puts slots, and copies of objects, into arguments.

    Args:
        tensors: Gets the tensors by their names.

    Attributes:
        notes: For the user: the objects that no container is, and whose tensors stay constant.
    """

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        from enginebay.models.object_copies import CopyObjects

        self.notes: list[str] = []
        self._tensors = tensors
        self._copied = CopyObjects()

    def __call__(self, name: str, value: Any) -> Any:
        """The value of the argument that is called ``name``, nested or not."""
        return map_named(self._leaf, value, name)

    def _leaf(self, path: str, leaf: Any) -> Any:
        tensor = _as_tensor(leaf)
        if tensor is not None:
            self._tensors[choose_unused_name(path, self._tensors)] = tensor
            return _Slot(len(self._tensors) - 1)
        if isinstance(leaf, _CONSTANTS):
            return leaf
        held = f"argument '{path}' is of type {type(leaf).__name__}"
        before = self._copied.tensors
        try:
            copied = self._copied(leaf)
        except Exception:  # noqa: BLE001  # a lock, a generator: what cannot be copied is shared
            self.notes.append(f"{held}, which cannot be copied: every run gets the same one")
            return leaf
        if tensors := self._copied.tensors - before:
            self.notes.append(
                f"{held}, whose tensors ({tensors}) stay as they are in the "
                "example: register it with torch.utils._pytree.register_pytree_node to change them"
            )
        return _Object(copied)


def _as_tensor(leaf: Any) -> Tensor | None:
    """A tensor, or a NumPy array as one; None for anything else."""
    import numpy as np
    import torch

    if isinstance(leaf, np.ndarray):
        return to_torch(to_numpy(leaf).copy(), torch.device("cpu"))
    return leaf if isinstance(leaf, torch.Tensor) else None


def eager(model: Any) -> Any:
    """The module that ``torch.compile`` wraps, or the model itself: compiled ones hide forward."""
    return getattr(model, "_orig_mod", model)
