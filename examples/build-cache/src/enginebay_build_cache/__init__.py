"""A build cache for all backends of Enginebay, as an example of a plugin that serves them all."""

__version__ = "0.1.0"
