"""Texts for messages: the first line of an exception, the nearest known name."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# The patterns are texts: re compiles each at its first use.
_COLOUR = r"\x1b\[[0-9;]*m"
_MAX_CHARACTERS = 300
_INSTALLED = "/site-packages/"

# For dynamic sizes, torch.export puts the reason into a list below a line that only announces it.
_ANNOUNCEMENT = r"^(?:Constraints violated|Found the following conflicts)"
_LIST_ITEM = r"(?m)^\s*- (.+?)(?:\. |\.?$)"


def without_colours(text: str) -> str:
    """Return a text without the codes by which a terminal changes colours."""
    return re.sub(_COLOUR, "", text)


def message_of(err: BaseException) -> str:
    """Return ``str(err)`` without colour codes; a fixed text if ``str`` itself fails.

    If the exception is about a package that a user's file hides, the text names the file.
    """
    try:
        text = without_colours(str(err))
    except Exception:  # noqa: BLE001  # the exception's class may be anything
        return "<exception str() failed>"  # the text that Python's own tracebacks have
    return f"{_hidden_package(err)}{text}"


def _hidden_package(err: BaseException) -> str:
    """Return that a file is imported instead of the installed package that an error is about."""
    name = err.name if isinstance(err, ImportError) else None
    if isinstance(err, AttributeError) and isinstance(err.obj, ModuleType):
        name = err.obj.__name__
    package = (name or "").partition(".")[0]
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    if not file.endswith(f"/{package}.py") or _INSTALLED in file:
        return ""
    from importlib.machinery import PathFinder
    from pathlib import Path

    spec = PathFinder.find_spec(package, [p for p in sys.path if Path(p) != Path(file).parent])
    found = [spec.origin or "", *(spec.submodule_search_locations or ())] if spec else []
    if not any(_INSTALLED in place for place in found):
        return ""
    return f"'{file}' hides the installed package {package}, rename it: "


#: A message of TorchScript continues with two tracebacks; its last line is the reason.
_SCRIPT_TRACEBACK = "The following operation failed in the TorchScript interpreter."


#: One about arguments starts with the method's declaration.
_SCRIPT_DECLARATION = r"\s*\w+\(__torch__\..*:\n"


def first_line(err: BaseException) -> str:
    """Return the first non-blank line of an exception's message, shortened if it is very long."""
    text = message_of(err)
    if re.match(_ANNOUNCEMENT, text) and (item := re.search(_LIST_ITEM, text)):
        return item[1]
    if text.startswith(_SCRIPT_TRACEBACK) and (last := text.strip().splitlines()[-1]):
        text = last.partition(": ")[2] or last
    elif re.match(_SCRIPT_DECLARATION, text):
        text = text.strip().partition("\n")[2]
    line = next((line.strip() for line in text.splitlines() if line.strip()), "(no message)")
    return line if len(line) <= _MAX_CHARACTERS else f"{line[: _MAX_CHARACTERS - 1]}…"


def one_line(err: BaseException) -> str:
    r"""Return the type of an exception and the first line of its message.

    Example:
        >>> one_line(ValueError("no such file\nlook here"))
        'ValueError: no such file'
    """
    name = type(err).__name__
    if isinstance(err, SystemExit):
        return f"{name}({err.code!r})"
    return f"{name}: {first_line(err)}" if message_of(err).strip() else name


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the hint that names the most similar known name, or None if none is similar.

    Example:
        >>> did_you_mean("onxruntime", ["onnxruntime", "ncnn"])
        "did you mean 'onnxruntime'?"
    """
    guess = nearest(name, known)
    return f"did you mean '{guess}'?" if guess else None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to ``name``, or None if none is similar.

    Example:
        >>> nearest("onxruntime", ["onnxruntime", "ncnn"])
        'onnxruntime'
    """
    from difflib import get_close_matches

    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None
