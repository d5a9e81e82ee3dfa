"""The rewriters that plugins contribute to an export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import PluginError
from enginebay.hooks import RewritersRequest
from enginebay.plugins import load_plugins

if TYPE_CHECKING:
    from enginebay.ir import IRKind
    from enginebay.plugins import PluginTeam
    from enginebay.rewriting import RewriterSet


def plugin_rewriters(ir: IRKind) -> list[RewriterSet]:
    """What the cross-cutting plugins contribute to an export for no backend in particular.

    Raises:
        PluginError: A plugin answered something else.
    """
    return contributed(load_plugins(), RewritersRequest(backend="", ir=ir))


def contributed(team: PluginTeam, request: RewritersRequest) -> list[RewriterSet]:
    """Everybody's answers, each marked with its distribution."""
    from enginebay.rewriting import RewriterSet

    answers = team.call_all("rewriters", request=request)
    for status, found in answers:
        if not isinstance(found, RewriterSet):
            raise PluginError(
                f"rewriters() of '{status.name}' answered {found!r}: wanted a RewriterSet",
                hint=f"pip install -U {status.distribution}",
            )
    return [found.from_distribution(status.distribution) for status, found in answers]
