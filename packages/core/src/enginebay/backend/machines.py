"""The machines that an engine is built for, as its backend returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import PluginError

if TYPE_CHECKING:
    from enginebay.hooks import BuiltFor
    from enginebay.plugins import BackendStatus


def checked_machines(found: BuiltFor, plugin: BackendStatus) -> BuiltFor:
    """Return what a plugin's ``built_for`` returned, if it can be put into a sentence.

    Raises:
        PluginError: It names no machines, or a field is no text.
    """
    texts = all(isinstance(text, str) for text in (found.machines, found.lacking))
    if not texts or not found.machines.strip():
        raise PluginError(
            f"built_for() of {plugin.name!r} ({plugin.provider}) returned {found!r}: "
            "wanted the machines as text, and what this one is lacking",
            hint=f"pip install -U {plugin.distribution}",
        )
    return found
