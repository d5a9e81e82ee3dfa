"""The rewriters that plugins contribute to an export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.hooks import RewritersRequest
from enginebay.plugins import load_plugins, wrong_result

if TYPE_CHECKING:
    from enginebay.ir import IRKind
    from enginebay.plugins import PluginTeam
    from enginebay.rewriting import RewriterSet


def plugin_rewriters(ir: IRKind) -> list[RewriterSet]:
    """Collect the rewriters of cross-cutting plugins, for an export without a backend.

    Raises:
        PluginError: A plugin returned something else.
    """
    return collect_rewriters(load_plugins(), RewritersRequest(backend="", ir=ir))


def collect_rewriters(team: PluginTeam, request: RewritersRequest) -> list[RewriterSet]:
    """Collect everybody's rewriters, each set marked with its distribution."""
    from enginebay.rewriting import RewriterSet

    found = team.call_all("rewriters", request=request)
    for status, rewriters in found:
        if not isinstance(rewriters, RewriterSet):
            raise wrong_result("rewriters", status, rewriters, "a RewriterSet")
    return [rewriters.from_distribution(status.distribution) for status, rewriters in found]
