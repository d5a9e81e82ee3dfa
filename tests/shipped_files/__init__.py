"""Model files that other people ship in wheels on PyPI, and what each engine makes of them."""
