"""The options of a deployment one by one, for tests that vary them."""

from __future__ import annotations

from typing import Any

import enginebay as eb


def split_options(given: dict[str, Any]) -> dict[str, Any]:
    """Put each option into the object that :func:`enginebay.deploy` takes it in."""
    rest = dict(given)
    for name, kind in (("export", eb.ExportOptions), ("verify", eb.VerifyOptions)):
        fields = kind.__struct_fields__
        found = {field: rest.pop(field) for field in fields if field in rest}
        if found:
            rest[name] = kind(**found)
    return rest
