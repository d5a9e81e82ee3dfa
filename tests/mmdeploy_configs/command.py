"""``python -m tests.mmdeploy_configs.command``: ``enginebay``, with any torchvision."""

from __future__ import annotations

import sys

from enginebay.cli import main
from tests.torchvision_shim import import_torchvision

if __name__ == "__main__":
    import_torchvision()
    sys.exit(main())
