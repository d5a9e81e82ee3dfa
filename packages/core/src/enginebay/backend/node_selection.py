"""Selection of the nodes that stay in floating point in an 8-bit engine: by name, by range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Values this large replace infinity in masks: -1e4 (BERT), -65504, -1e9, the lowest float32. Their
#: steps in 8 bits are 32 and more, so that all attention scores, or activations, would be equal.
_REPLACED_INFINITY = 2.0**13


def fits_eight_bits(low: float, high: float) -> bool:
    """Return True if a tensor's range, from the lowest to the highest value, has steps in 8 bits.

    It has none if an end is infinite or NaN, or replaces infinity as in a mask.

    Example:
        >>> fits_eight_bits(-4.5, 30), fits_eight_bits(-3.4e38, 0), fits_eight_bits(0, float("inf"))
        (True, False, False)
    """
    return -_REPLACED_INFINITY < low <= high < _REPLACED_INFINITY


def kept_nodes(nodes: Mapping[str, str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the nodes that stay in floating point, selected by name or by operator.

    Args:
        nodes: Node name → operator, for all nodes that could be computed in 8 bits.
        names: Names of nodes or of operators, or the beginnings of node names before a ``/``, such
            as ``/head`` for ``/head/fc``.

    Returns:
        The names of the selected nodes, in the order of ``nodes``.

    Raises:
        UsageError: A name matches no node, or the names match all nodes.

    Example:
        >>> kept_nodes({"/stem/conv": "Conv", "/head/fc": "Gemm", "/head/act": "Clip"}, ["/head"])
        ('/head/fc', '/head/act')
    """
    kept: set[str] = set()
    for name in names:
        # A prefix ends at a "/", so that "head" does not select "header".
        prefix = name.rstrip("/") + "/"
        matches = [
            node for node, kind in nodes.items() if name in (node, kind) or node.startswith(prefix)
        ]
        if not matches:
            raise _unknown_name(name, nodes)
        kept.update(matches)
    if len(kept) == len(nodes):
        raise UsageError(
            f"--int8-keep excludes all {len(nodes)} nodes, so that no node would run in 8 bits",
            hint="for fp32, leave out both --int8-keep and --precision",
        )
    return tuple(node for node in nodes if node in kept)


def _unknown_name(name: str, nodes: Mapping[str, str]) -> UsageError:
    kinds = sorted(set(nodes.values()))
    return UsageError(
        f"the engine computes no node or operator '{name}' in 8 bits; "
        f"operators in 8 bits: {', '.join(kinds) or 'none'} ({len(nodes)} nodes)",
        hint=did_you_mean(name, [*kinds, *nodes]) or "'enginebay sensitivity' lists the nodes",
    )


def describe_wide_nodes(nodes: Mapping[str, float]) -> str:
    """Describe nodes that stay in floating point, each with the largest magnitude of its values."""
    verb = "stays" if len(nodes) == 1 else "stay"
    return (
        f"{', '.join(nodes)} {verb} in floating point, because values reach "
        f"{max(nodes.values()):.3g}, as in a mask: 8 bits have no steps for such a range"
    )
