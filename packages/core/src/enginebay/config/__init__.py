"""Deploy configs: files that say what to export, for which engine, with which parameters.

TOML, JSON, YAML and Python, the last read without executing it. A file inherits from others with
``_base_``; ``load`` gives the result as plain values.
"""

from __future__ import annotations

from enginebay.config.loading import load, read

__all__ = ["load", "read"]
