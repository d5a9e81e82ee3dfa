"""Enginebay's own rewriters, as a plugin: whatever an exporter refuses or translates wrongly.

``builtin`` has the rewriters for exporters, ``portable`` the lowerings for engines that lack an
operator. ``plugin`` returns them from the hook ``rewriters``, as fallbacks: any other rewriter for
the same name replaces them. The package uses only public names of Enginebay.
"""

__version__ = "0.1.0"
