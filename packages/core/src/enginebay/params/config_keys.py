"""Keys of a deploy config's backend section that are not named as the parameters are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec


def _nothing(_value: Any) -> Mapping[str, Any]:
    return {}


class ConfigKey(msgspec.Struct, frozen=True):
    """Another spelling that ``backend_config`` may use, for configs written elsewhere.

    Attributes:
        type: What its value must be, as in an annotation.
        fields: What it means: a callable that takes the value and answers fields of the params.
            It raises :class:`~enginebay.errors.ParamsError` for a value that cannot be served.
        no_effect: Why it does nothing here; whoever uses it is told.

    Example:
        >>> use_vulkan = ConfigKey(bool, lambda on: {"device": "vulkan"} if on else {})
        >>> use_vulkan.fields(True)
        {'device': 'vulkan'}
    """

    type: Any
    fields: Callable[[Any], Mapping[str, Any]] = _nothing
    no_effect: str = ""
