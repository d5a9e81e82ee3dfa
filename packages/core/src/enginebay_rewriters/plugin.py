"""The plugin of Enginebay's own rewriters; the rewriters themselves are imported for an export."""

from __future__ import annotations

import enginebay as eb
from enginebay.environment import install_command
from enginebay.errors import PluginError
from enginebay.hooks import RewritersRequest  # noqa: TC001  # pluggy reads the signature
from enginebay_rewriters import __version__


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:
    """Return the rewriters for every engine; an empty set if the export excludes them."""
    if not request.builtin:
        return eb.RewriterSet()
    # Both are in one distribution: another version is left by an installation that was cut short.
    if __version__ != eb.__version__:
        raise PluginError(
            f"the rewriters of enginebay are of version {__version__}, but enginebay is of version "
            f"{eb.__version__}",
            hint=install_command("enginebay", "--force-reinstall --no-deps"),
        )
    from enginebay_rewriters.builtin import builtin_rewriters

    return builtin_rewriters()
