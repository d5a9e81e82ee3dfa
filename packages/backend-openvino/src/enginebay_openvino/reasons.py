"""OpenVINO's error messages without the locations in its C++ sources."""

from __future__ import annotations

import re

#: Lines with locations in OpenVINO's own code, or without any information.
_NOISE = re.compile(
    r"Exception from \S+:\d+:|Check '.*' failed at \S+:\d+:|FrontEnd API failed with \w+:"
    r"|Model wasn't fully converted\..*|Summary:"
)
_LACKING = re.compile(r"No conversion rule found for operations: .*")
_MAX_CHARACTERS = 500


def format_reason(err: BaseException) -> str:
    r"""Return the message of an OpenVINO exception on one line.

    Example:
        >>> format_reason(RuntimeError("Exception from src/a.cpp:84:\nno room\nat all\n\n"))
        'no room; at all'
        >>> text = "Mul with a message:\nwrong type\nNo conversion rule found for operations: Foo"
        >>> format_reason(RuntimeError(text))
        'No conversion rule found for operations: Foo'
        >>> text = "ValueError: no\n\nAt:\n  ops.py(3): evaluate\n  api.py(9): infer"
        >>> format_reason(RuntimeError(text))
        'ValueError: no; At:; ops.py(3): evaluate'
    """
    # What OpenVINO says of the nodes behind an operator that it does not know only follows from it.
    if lacking := _LACKING.search(str(err)):
        return lacking[0].strip()
    lines = [line.strip().removeprefix("-- ") for line in str(err).splitlines()]
    if "At:" in lines:  # a Python traceback, the location of the error first
        del lines[lines.index("At:") + 2 :]
    text = "; ".join(line for line in lines if line and not _NOISE.fullmatch(line))
    text = text or type(err).__name__
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"
