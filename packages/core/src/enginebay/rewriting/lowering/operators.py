"""Lookup of operators by their names in ``torch.ops``: ``aten.max``, ``aten.max.dim``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from enginebay import torch_private
from enginebay.errors import nearest
from enginebay.rewriting.dotted_names import NameNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from enginebay.torch_private import OpOverload

    #: Returns True if an exporter translates an operator, for complex numbers if the flag is True.
    Known = Callable[[OpOverload, bool], bool]

    Args = tuple[object, ...]
    Kwargs = Mapping[str, object]


def find_overloads(name: str) -> list[OpOverload]:
    """Return the overloads that a name refers to, except overloads that write to arguments.

    Args:
        name: A name in ``torch.ops``: ``aten.max``, ``aten.max.dim``.

    Raises:
        NameNotFoundError: ``torch.ops`` has no such operator.
    """
    return _find_in_aten(name) if name.startswith("aten.") else _find_overloads(name)


def _find_overloads(name: str) -> list[OpOverload]:
    import torch

    namespace, operator, *overload = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if packet is None:
        known = _operators_by_namespace()
        part, names = (operator, known[namespace]) if namespace in known else (namespace, known)
        raise _not_found_error(part, names, f'torch.ops has no "{name}"')
    if overload and overload[0] not in packet.overloads():
        reason = f'"{namespace}.{operator}" has no overload "{overload[0]}"'
        raise _not_found_error(overload[0], packet.overloads(), reason)
    overloads = [getattr(packet, each) for each in overload or packet.overloads()]
    # A captured graph has no operators that write to their arguments.
    return [each for each in overloads if not torch_private.schema_of(each).is_mutable]


#: Of other libraries, operators may be defined again, as by a notebook's cell that runs twice.
_find_in_aten = cache(_find_overloads)


def operator_name(overload: OpOverload) -> str:
    """Return an operator's name without the overload, such as ``aten.max``."""
    name: str = torch_private.schema_of(overload).name
    return name.replace("::", ".")


def is_listed(overload: OpOverload, operators: Collection[str]) -> bool:
    """Return True if a list of operators contains an overload or its operator.

    Example:
        >>> import torch
        >>> is_listed(torch.ops.aten.max.dim, {"aten.max"})
        True
        >>> is_listed(torch.ops.aten.max.dim, {"aten.max.other"})
        False
    """
    return operator_name(overload) in operators or str(overload) in operators


def has_complex(operators: Collection[str]) -> bool:
    """Return True if an engine that supports ``operators`` supports complex numbers."""
    return not {"aten.complex", "aten.complex.default"}.isdisjoint(operators)


def are_complex(args: object, kwargs: object) -> bool:
    """Return True if an argument of a call is a complex tensor, number or dtype."""
    import torch

    for each in torch_private.tree_leaves((args, kwargs)):
        dtype = getattr(each, "dtype", each)
        if isinstance(each, complex) or (isinstance(dtype, torch.dtype) and dtype.is_complex):
            return True
    return False


def why_never_met(overloads: Collection[OpOverload]) -> str:
    """Return why no captured graph has the overloads; an empty string if one may have them."""
    if not overloads:
        return "a captured graph has no operators that write to their arguments"
    if all(map(is_always_decomposed, overloads)):
        return "torch.export decomposes the operator first"
    return ""


def is_always_decomposed(overload: OpOverload) -> bool:
    """Return True if torch.export decomposes an operator even with an empty decomposition table.

    Such operators are the composite ones that may alias or mutate an argument, such as reshape and
    batch_norm, and those whose only autograd kernel is a decomposition in Python, such as
    hardshrink.
    """
    import torch

    if is_composite(overload):
        arguments = torch_private.schema_of(overload).arguments
        aliases = any(each.alias_info is not None for each in arguments)
        return aliases or torch.Tag.maybe_aliasing_or_mutating in overload.tags
    return torch.DispatchKey.Autograd in overload.py_kernels


def is_composite(overload: OpOverload) -> bool:
    """Return True if an operator is defined by other operators, so that torch can decompose it."""
    import torch

    return overload.has_kernel_for_dispatch_key(torch.DispatchKey.CompositeImplicitAutograd)


def _operators_by_namespace() -> dict[str, list[str]]:
    by_namespace: dict[str, list[str]] = {}
    for each in torch_private.all_operator_names():
        namespace, _, name = each.partition("::")
        by_namespace.setdefault(namespace, []).append(name.partition(".")[0])
    return by_namespace


def _not_found_error(part: str, known: Collection[str], reason: str) -> NameNotFoundError:
    guess = nearest(part, known)
    question = f' (did you mean "{guess}"?)' if guess else ""
    return NameNotFoundError(f"{reason}{question}")
