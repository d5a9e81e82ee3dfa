"""``python -m tests.full_size``: measure models of real size, and write the zoo's page."""

from __future__ import annotations

import sys

from tests.zoo.__main__ import main

if __name__ == "__main__":
    sys.exit(main("tests.full_size"))
