"""Write a config in the ``.py`` form, from which the same config can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINE_WIDTH = 88


def as_python(config: Mapping[str, object]) -> str:
    """Return a config as Python text, with one assignment for each top-level key.

    Top-level keys must be Python names. A nested dict with other keys is written as ``{…}``.

    Example:
        >>> print(as_python({"backend_config": {"type": "ncnn", "axes": {0: "batch"}}}), end="")
        backend_config = dict(type='ncnn', axes={0: 'batch'})
    """
    return "".join(
        f"{name} = {_format_value(value, len(str(name)) + 3)}\n" for name, value in config.items()
    )


def _format_value(value: object, column: int, indent: int = 0) -> str:
    """Format a value on one line if the line is short enough, otherwise with a line per item."""
    line = _format_line(value)
    if column + len(line) <= _LINE_WIDTH or not isinstance(value, dict | list | tuple) or not value:
        return line
    deeper = indent + 4
    opening, items, closing = _split_container(value)
    texts = [
        f"{' ' * deeper}{prefix}{_format_value(item, deeper + len(prefix), deeper)},\n"
        for prefix, item in items
    ]
    return f"{opening}\n{''.join(texts)}{' ' * indent}{closing}"


def _format_line(value: object) -> str:
    if not isinstance(value, dict | list | tuple):
        return _format_number(value) if isinstance(value, float) else repr(value)
    opening, items, closing = _split_container(value)
    inside = ", ".join(prefix + _format_line(item) for prefix, item in items)
    comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
    return f"{opening}{inside}{comma}{closing}"


def _split_container(
    value: dict[object, object] | list[object] | tuple[object, ...],
) -> tuple[str, list[tuple[str, object]], str]:
    if isinstance(value, list):
        return "[", [("", item) for item in value], "]"
    if isinstance(value, tuple):
        return "(", [("", item) for item in value], ")"
    if all(isinstance(key, str) and _is_name(key) for key in value):
        return "dict(", [(f"{key}=", item) for key, item in value.items()], ")"
    return "{", [(f"{_format_line(key)}: ", item) for key, item in value.items()], "}"


def _is_name(key: str) -> bool:
    from keyword import iskeyword

    # Python normalises other letters: dict(ª=1) has the key 'a'.
    return key.isascii() and key.isidentifier() and not iskeyword(key)


def _format_number(value: float) -> str:
    """Return a number as a Python expression; infinity and NaN have no literal."""
    if value != value:  # NaN is the only value that differs from itself
        return "(1e999 - 1e999)"
    return repr(value).replace("inf", "1e999")
