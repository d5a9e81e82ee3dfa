"""Bugs that users found in other projects: no artifact with such a bug is verified."""
