"""Operators by their names, as they stand in ``torch.ops``: ``aten.max``, ``aten.max.dim``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import nearest
from enginebay.rewriting.names import NameNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from torch._ops import OpOverload

    #: Tells whether an exporter translates an operator, of complex numbers where True is given.
    Known = Callable[[OpOverload, bool], bool]


def overloads_of(name: str) -> list[OpOverload]:
    """Return the overloads that a name stands for: the one that it names, else all of them.

    Those that write to an argument are left out: a captured graph has none.

    Args:
        name: As in ``torch.ops``: ``aten.max``, ``aten.max.dim``.

    Raises:
        NameNotFoundError: ``torch.ops`` has no such operator.
    """
    import torch

    namespace, operator, *overload = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if packet is None:
        known = _operators()
        part, names = (operator, known[namespace]) if namespace in known else (namespace, known)
        raise _missing(part, names, f'torch.ops has no "{name}"')
    if overload and overload[0] not in packet.overloads():
        reason = f'"{namespace}.{operator}" has no overload "{overload[0]}"'
        raise _missing(overload[0], packet.overloads(), reason)
    every = [getattr(packet, each) for each in overload or packet.overloads()]
    return [each for each in every if not each._schema.is_mutable]


def name_of(overload: OpOverload) -> str:
    """Return an operator's name without the overload: ``aten.max``."""
    name: str = overload._schema.name
    return name.replace("::", ".")


def is_among(overload: OpOverload, operators: Collection[str]) -> bool:
    """Return True if an overload is in a list of names of operators and of overloads.

    Example:
        >>> import torch
        >>> is_among(torch.ops.aten.max.dim, {"aten.max"})
        True
        >>> is_among(torch.ops.aten.max.dim, {"aten.max.other"})
        False
    """
    name = name_of(overload)
    return name in operators or f"{name}.{overload._schema.overload_name or 'default'}" in operators


def has_complex(operators: Collection[str]) -> bool:
    """Return True for an engine that has complex numbers."""
    return not {"aten.complex", "aten.complex.default"}.isdisjoint(operators)


def are_complex(args: Any, kwargs: Any) -> bool:
    """Return True if a tensor, a number or the wanted dtype of a call is complex."""
    import torch
    from torch.utils._pytree import tree_leaves

    for each in tree_leaves((args, kwargs)):
        dtype = getattr(each, "dtype", each)
        if isinstance(each, complex) or (isinstance(dtype, torch.dtype) and dtype.is_complex):
            return True
    return False


def why_never_met(overloads: Collection[OpOverload]) -> str:
    """Return why no captured graph has any of these overloads; empty where one may."""
    if not overloads:
        return "a captured graph has no operators that write to their arguments"
    if all(map(is_always_taken_apart, overloads)):
        return "torch.export takes it apart before"
    return ""


def is_always_taken_apart(overload: OpOverload) -> bool:
    """Return True if torch.export replaces an operator by others, whatever is asked of it.

    It does so with composite operators that may return or write to an argument, such as reshape
    and batch_norm, and with those whose only kernel for autograd is a decomposition in Python,
    such as hardshrink.
    """
    import torch

    schema, composite = overload._schema, "CompositeImplicitAutograd"
    name = f"{schema.name}.{schema.overload_name}".rstrip(".")
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, composite):
        aliases = any(each.alias_info is not None for each in schema.arguments)
        return aliases or torch.Tag.maybe_aliasing_or_mutating in overload.tags
    key = torch._C.DispatchKey
    kernels = overload.py_kernels
    return key.Autograd in kernels and key.CompositeImplicitAutograd not in kernels


def _operators() -> dict[str, list[str]]:
    """The names of all registered operators, by namespace."""
    import torch

    found: dict[str, list[str]] = {}
    for each in torch._C._dispatch_get_all_op_names():
        namespace, _, name = each.partition("::")
        found.setdefault(namespace, []).append(name.partition(".")[0])
    return found


def _missing(part: str, known: Collection[str], reason: str) -> NameNotFoundError:
    guess = nearest(part, known)
    question = f' (did you mean "{guess}"?)' if guess else ""
    return NameNotFoundError(f"{reason}{question}")
