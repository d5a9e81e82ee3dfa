"""A build cache for every backend of Enginebay, as an example of a plugin that sees them all."""

__version__ = "0.1.0"
