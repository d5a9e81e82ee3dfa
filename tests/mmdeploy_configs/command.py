"""``python -m tests.mmdeploy_configs.command``: ``enginebay``, with any torchvision."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from enginebay.cli import main
from tests.torchvision_shim import import_torchvision

if __name__ == "__main__":
    if find_spec("torchvision"):
        import_torchvision()
    sys.exit(main())
