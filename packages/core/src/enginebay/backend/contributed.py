"""The rewriters that plugins contribute to an export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.hooks import Rewriters, RewritersRequest
from enginebay.plugins import load_plugins, wrong_result

if TYPE_CHECKING:
    from enginebay.params import IRKind
    from enginebay.plugins import PluginTeam
    from enginebay.rewriting import RewriterSet


def plugin_rewriters(ir: IRKind, *, builtin: bool = True) -> list[RewriterSet]:
    """Return the rewriters of all plugins that apply to every backend.

    Args:
        ir: The IR of the export.
        builtin: False to exclude Enginebay's own rewriters.

    Raises:
        PluginError: A plugin did not return a ``RewriterSet``, or Enginebay's own rewriters cannot
            be used.
    """
    # An empty name requests the rewriters for an export without a backend.
    request = RewritersRequest(backend="", ir=ir, builtin=builtin)
    return collect_rewriters(load_plugins(), request)


def collect_rewriters(team: PluginTeam, request: RewritersRequest) -> list[RewriterSet]:
    """Return the set of rewriters of each plugin, with the name of the plugin's distribution."""
    if request.builtin:
        team.check_core_plugins()
    results = team.call_all("rewriters", request=request)
    for status, rewriters in results:
        if not isinstance(rewriters, Rewriters):
            raise wrong_result("rewriters", status, rewriters, "a RewriterSet")
    return [rewriters.from_distribution(status.distribution) for status, rewriters in results]
