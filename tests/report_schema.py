"""The JSON schema of a report, which ``docs/report.schema.json`` holds."""

from __future__ import annotations

from typing import Any

import msgspec

from enginebay_lab import Report


def json_schema() -> dict[str, Any]:
    """The JSON schema of the document: the same for every Python and every version of Enginebay."""
    plain = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Report)))
    schema: dict[str, Any] = _stable(plain)
    return schema


def _stable(schema: Any) -> Any:
    """The same without defaults, one of which is a version, and with the docstrings' first lines.

    Python 3.13 indents the other lines in another way.
    """
    if isinstance(schema, list):
        return [_stable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema.partition("\n")[0] if isinstance(schema, str) else schema
    return {key: _stable(value) for key, value in schema.items() if key != "default"}
