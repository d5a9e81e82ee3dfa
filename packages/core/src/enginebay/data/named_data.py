"""Find a data set by name: a path, a Python object, or ``SCHEME:NAME`` of a plugin."""

from __future__ import annotations

from pathlib import Path

from enginebay.errors import EnginebayError, InputError, check_text, first_line
from enginebay.hooks import DataRequest
from enginebay.named_objects import named_object
from enginebay.plugins import contributed

_FORMS = "an .npz file, a folder of .npz files, file.py:attr, or SCHEME:NAME of a plugin"


def find_data(text: str) -> object:
    """Return the data set that a text names.

    Args:
        text: A path; ``file.py:attr`` or ``module:attr``; or ``SCHEME:NAME``.

    Returns:
        A path, an iterable, or a callable that returns an iterable.

    Raises:
        InputError: The text does not name a data set.
        ModelSourceError: The Python file or module cannot be imported.
    """
    check_text(text)
    if ":" not in text or Path(text).exists():  # a path may contain a colon
        return Path(text)
    scheme, _, name = text.partition(":")
    sources = contributed("data_sources")
    if scheme in sources:
        try:
            return sources[scheme](DataRequest(name=name))
        except (EnginebayError, KeyboardInterrupt):
            raise
        except BaseException as err:  # sys.exit() in a plugin must not end Enginebay silently
            message = f"'{text}' raised {type(err).__name__}: {first_line(err)}"
            raise InputError(message) from err
    if not text.rpartition(":")[2]:
        raise InputError(f"'{text}' is not the name of a data set", hint=f"expected {_FORMS}")
    with named_object(text) as data:
        return data
