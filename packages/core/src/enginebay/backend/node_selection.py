"""Selection by name of the nodes that stay in floating point in an 8-bit engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import UsageError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
    close = nearest(name, [*kinds, *nodes])
    return UsageError(
        f"the engine computes no node or operator '{name}' in 8 bits; "
        f"operators in 8 bits: {', '.join(kinds) or 'none'} ({len(nodes)} nodes)",
        hint=f"did you mean '{close}'?" if close else "'enginebay sensitivity' lists the nodes",
    )
