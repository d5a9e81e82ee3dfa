"""Checks of the engine and its device; core checks the distributions and runs a tiny model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.environment import Tier, check_import, passed

if TYPE_CHECKING:
    from enginebay.hooks import CheckEnvRequest

    from enginebay_myengine.params import MyengineParams


def check_tier(request: CheckEnvRequest[MyengineParams]) -> eb.EnvReport:
    """Import the engine in the stage ``import``; check its device in the stage ``device``."""
    if request.tier is Tier.IMPORT:
        return check_import("onnx.reference", fix="pip install 'onnx>=1.21'")
    if request.tier is Tier.DEVICE:
        return passed(request.tier, "cpu", found="available on every machine")
    return eb.EnvReport()
