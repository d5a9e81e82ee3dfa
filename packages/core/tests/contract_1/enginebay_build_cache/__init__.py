"""A cache of builds: an example of a plugin whose hooks are called for all backends."""

__version__ = "0.1.0"
