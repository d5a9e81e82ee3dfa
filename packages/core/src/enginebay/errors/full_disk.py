"""Recognition of a full or read-only disk, in exceptions and in messages."""

from __future__ import annotations

import errno
import os

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


def disk_error(error: BaseException | None) -> OSError | None:
    """Return the error of a full or read-only disk in an exception's chain of causes, or None.

    Example:
        >>> disk_error(ValueError("no")) is None
        True
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK:
            return error
        # An error in an except clause has no cause, but a context.
        error = error.__cause__ or error.__context__
    return None


def names_full_disk(text: str) -> bool:
    """Return True if a message contains the system's text for a full or read-only disk.

    Child processes and engines in C++ transmit only the text of such an error.

    Example:
        >>> names_full_disk("cannot write 'm.onnx': No space left on device")
        True
    """
    return any(os.strerror(code) in text for code in _DISK)
