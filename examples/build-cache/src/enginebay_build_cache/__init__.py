"""A cache of builds for all backends of Enginebay: an example of a plugin for every backend."""

__version__ = "0.1.0"
