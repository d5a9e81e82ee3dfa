"""``python -m tests.wild``: measure the models of people's packages, and write the page."""

from __future__ import annotations

import sys

from tests.zoo.__main__ import main

if __name__ == "__main__":
    sys.exit(main("tests.wild"))
