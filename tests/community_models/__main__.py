"""``python -m tests.community_models``: measure models of other packages, and write the page."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from tests.zoo.__main__ import main

if __name__ == "__main__":
    # torchaudio's library was linked with a torch for GPUs; without a GPU, it falls back to Python.
    for library in Path(sysconfig.get_path("purelib"), "torchaudio", "lib").glob("*.so"):
        library.unlink()
    sys.exit(main("tests.community_models"))
