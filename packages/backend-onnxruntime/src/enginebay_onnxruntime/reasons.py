"""ONNX Runtime's error messages without codes, paths of copies and locations in its C++ sources."""

from __future__ import annotations

import re

from enginebay.errors import without_colours

#: A function of C++ with its arguments, or without its class and arguments.
_RESULT = r"(?:virtual )?(?:[\w:<>]+ )?"
_FUNCTION = rf"(?:{_RESULT}[\w:<>~]+\((?:[^()]|\([^()]*\))*\)(?: const)?(?:::<lambda\(\)>)?|\w+) ?"
_NOISE = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : |Load model from \S+ failed: ?"
    rf"|Exception during initialization: |Fatal error: |[\w/]+\.(?:cc|h):\d+ {_FUNCTION}"
)
_LOCALE = re.compile(r"Failed to construct locale with name:([^:]+):")


def format_reason(err: BaseException) -> str:
    """Return the message of an ONNX Runtime exception on one line.

    Example:
        >>> text = "[ONNXRuntimeError] : 1 : FAIL : Load model from /a/b.onnx failed:no room"
        >>> format_reason(RuntimeError(text))
        'no room'
    """
    text = _NOISE.sub("", " ".join(without_colours(str(err)).split()))
    return text or type(err).__name__


def find_locale(err: BaseException) -> str:
    """Return the locale that an operator on texts asks for and this machine lacks; "" if none."""
    match = _LOCALE.search(str(err))
    return match[1] if match else ""
