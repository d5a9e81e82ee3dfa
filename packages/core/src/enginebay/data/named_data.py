"""The data that a text names: a path, a Python object, or a name of a plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from enginebay.errors import EnginebayError, InputError, check_text, first_line
from enginebay.hooks import DataRequest
from enginebay.models import named_object
from enginebay.plugins import contributed

_FORMS = "an .npz file, a folder of them, file.py:attr, or SCHEME:NAME of a plugin"


def find_data(text: str) -> Any:
    """Find the data that is meant.

    Args:
        text: A path; ``file.py:attr`` or ``module:attr``; or ``SCHEME:NAME``.

    Returns:
        A path, an iterable, or a callable that returns one.

    Raises:
        InputError: The text leads nowhere.
        ModelSourceError: The Python file or module cannot be imported.
    """
    check_text(text)
    if ":" not in text or Path(text).exists():
        return Path(text)
    scheme, _, name = text.partition(":")
    sources = contributed("data_sources")
    if scheme in sources:
        try:
            return sources[scheme](DataRequest(name=name))
        except (EnginebayError, KeyboardInterrupt):
            raise
        except BaseException as err:  # an exit in it is no success
            message = f"'{text}' raised {type(err).__name__}: {first_line(err)}"
            raise InputError(message) from err
    if not text.rpartition(":")[2]:
        raise InputError(f"'{text}' names no data set", hint=f"wanted {_FORMS}")
    with named_object(text) as found:
        return found
