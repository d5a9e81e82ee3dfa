"""Mistakes that users found in other projects: no artifact with one of them is verified."""
