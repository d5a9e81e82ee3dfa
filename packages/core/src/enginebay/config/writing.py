"""A config as text that reads back as the same config."""

from __future__ import annotations

from typing import Any

_WIDTH = 88


def as_python(config: dict[Any, Any]) -> str:
    """The config in the ``.py`` form, one assignment for each name.

    Names that Python cannot spell are left to a dict; there are none in a ``.py`` file.

    Example:
        >>> print(as_python({"backend_config": {"type": "ncnn", "axes": {0: "batch"}}}), end="")
        backend_config = dict(type='ncnn', axes={0: 'batch'})
    """
    return "".join(
        f"{name} = {_text(value, len(str(name)) + 3)}\n" for name, value in config.items()
    )


def _text(value: Any, column: int, indent: int = 0) -> str:
    """The value on one line where it fits, else one item a line."""
    line = _line(value)
    if column + len(line) <= _WIDTH or not isinstance(value, dict | list | tuple) or not value:
        return line
    deeper = indent + 4
    opening, items, closing = _parts(value)
    texts = [
        f"{' ' * deeper}{prefix}{_text(item, deeper + len(prefix), deeper)},\n"
        for prefix, item in items
    ]
    return f"{opening}\n{''.join(texts)}{' ' * indent}{closing}"


def _line(value: Any) -> str:
    if not isinstance(value, dict | list | tuple):
        return _number(value) if isinstance(value, float) else repr(value)
    opening, items, closing = _parts(value)
    inside = ", ".join(prefix + _line(item) for prefix, item in items)
    comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
    return f"{opening}{inside}{comma}{closing}"


def _parts(value: Any) -> tuple[str, list[tuple[str, Any]], str]:
    if isinstance(value, list):
        return "[", [("", item) for item in value], "]"
    if isinstance(value, tuple):
        return "(", [("", item) for item in value], ")"
    if all(isinstance(key, str) and _is_name(key) for key in value):
        return "dict(", [(f"{key}=", item) for key, item in value.items()], ")"
    return "{", [(f"{_line(key)}: ", item) for key, item in value.items()], "}"


def _is_name(key: str) -> bool:
    from keyword import iskeyword

    # Python takes other letters for their plain forms: dict(ª=1) has the key 'a'.
    return key.isascii() and key.isidentifier() and not iskeyword(key)


def _number(value: float) -> str:
    """Infinity and "not a number" have no literal; a calculation gives them."""
    if value != value:  # only NaN is not itself
        return "(1e999 - 1e999)"
    return repr(value).replace("inf", "1e999")
