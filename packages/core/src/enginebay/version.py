"""The version of Enginebay. All distributions of this repository carry the same one."""

__version__ = "0.1.0"
