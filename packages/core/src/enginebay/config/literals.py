"""Text that stands where a value would."""

from __future__ import annotations

import re
from typing import Any

_WORDS = {"True": True, "False": False, "None": None}
_INT = re.compile("[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_LONGEST_NUMBER = 64  # characters


def literal(text: str) -> Any:
    """A text as the Python literal that it spells; else the text itself.

    Example:
        >>> literal("80"), literal("-1.5"), literal("True"), literal("data/coco")
        (80, -1.5, True, 'data/coco')
    """
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _LONGEST_NUMBER:
        return text
    return int(text) if _INT.fullmatch(text) else float(text) if _FLOAT.fullmatch(text) else text
