"""``codebase_config`` of torchvision's models, which is checked without torchvision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.authors.sources import Options, read_options
from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from enginebay.hooks import ModelRequest


def check_section(request: ModelRequest) -> Options:
    """Check ``codebase_config``, in which detectors may have ``model_type``; return its options.

    Raises:
        ModelSourceError: A key is unknown, or a value is wrong for any model.
    """
    section = dict(request.codebase_config)
    model_type = section.pop("model_type", None)
    if model_type not in (None, "end2end"):
        raise ModelSourceError(
            f"codebase_config.model_type: '{model_type}' is not a model_type of torchvision; "
            "available: end2end",
            hint="remove model_type to deploy the detector without non-maximum suppression",
        )
    return read_options(msgspec.structs.replace(request, codebase_config=section))
