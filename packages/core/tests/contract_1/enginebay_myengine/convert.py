"""Conversion of an IR to the engine's files."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.hooks import ConvertRequest

    from enginebay_myengine.params import MyengineParams


def convert(request: ConvertRequest[MyengineParams]) -> list[Path]:
    """Copy the model and its external data, and return the paths of the copies."""
    paths = []
    for file in request.ir.files:
        is_main = file == request.ir.path
        target = request.work_dir / (request.params.file_name if is_main else file.name)
        shutil.copyfile(file, target)
        paths.append(target)
    return paths
