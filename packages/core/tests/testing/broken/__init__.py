"""Intentionally broken backends, with the law that each breaks."""

from . import inference, numbers, plugins, processes
from .plugin import Broken, source

__all__ = ["BROKEN", "Broken", "source"]

BROKEN = plugins.BROKEN | numbers.BROKEN | inference.BROKEN | processes.BROKEN
