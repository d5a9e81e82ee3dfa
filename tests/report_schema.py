"""The JSON schema of a report, for ``docs/reference/report.schema.json``."""

from __future__ import annotations

from typing import Any

import msgspec

from enginebay_lab import Report


def json_schema() -> dict[str, Any]:
    """Return the JSON schema, the same for every Python and every version of Enginebay."""
    plain = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Report)))
    schema: dict[str, Any] = _stable(plain)
    return schema


def _stable(schema: Any) -> Any:
    """Return the schema without defaults, which contain a version, and with short descriptions.

    Only the first line of a docstring stays: Python 3.13 indents the other lines differently.
    """
    if isinstance(schema, list):
        return [_stable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema.partition("\n")[0] if isinstance(schema, str) else schema
    return {key: _stable(value) for key, value in schema.items() if key != "default"}
