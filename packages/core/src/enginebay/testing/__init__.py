"""What the authors of plugins test with."""

from __future__ import annotations

from enginebay.testing.temporary import temporary_backend

__all__ = ["temporary_backend"]
