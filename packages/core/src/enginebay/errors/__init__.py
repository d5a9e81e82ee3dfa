"""Every error that Enginebay raises on purpose.

::

    EnginebayError                    exit code 1
    ├── UsageError                    2   the call itself is wrong
    │   ├── InputError                2   a tensor's name, dtype or shape
    │   ├── ParamsError               2   a backend's parameters, a shape string
    │   ├── ConfigError               2   a deploy config's text, keys or values
    │   ├── ModelSourceError          2   MODEL does not name a model
    │   ├── RewriterError             2   a rewriter's declaration
    │   └── ArtifactExistsError       2   the work directory is taken
    ├── BackendUnavailableError       3   the named backend cannot be used
    │   ├── BackendNotFoundError      3   no installed distribution has it
    │   └── PluginError               3   its plugin is broken, disabled or too old
    ├── MissingDependencyError        3   a package that this step needs is not installed
    ├── ModelError                    1   the model's own code raised
    ├── ExportError                   1   model → IR failed
    ├── ConversionError               1   IR → engine failed
    │   └── LackingOperatorsError     1   the engine lacks operators; carries ``.operators``
    ├── InferenceError                1   the engine failed on good inputs
    ├── ArtifactError                 1   an artifact is damaged, foreign or from the future
    ├── FallbackError                 1   another device than the requested one
    ├── NotVerifiedError              1   nothing shows the model's numbers; carries ``.verdict``
    └── IsolationError                1   a child process did not do its work
        ├── ChildCrashedError         1   it ended with a signal or an exit code
        └── ChildTimeoutError         1   it ran past its time limit

The message says first what failed, with the value in quotes, then what was wanted and what was
found. ``hint`` is the command or the argument to change.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from enginebay.errors.advice import in_python
from enginebay.errors.interruption import forget_interruption, interrupt, raise_if_interrupted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from enginebay.verdict import Verification

__all__ = [
    "ArtifactError",
    "ArtifactExistsError",
    "BackendNotFoundError",
    "BackendUnavailableError",
    "ChildCrashedError",
    "ChildTimeoutError",
    "ConfigError",
    "ConversionError",
    "EnginebayError",
    "ExportError",
    "FallbackError",
    "InferenceError",
    "InputError",
    "IsolationError",
    "LackingOperatorsError",
    "MissingDependencyError",
    "ModelError",
    "ModelSourceError",
    "NotVerifiedError",
    "ParamsError",
    "PluginError",
    "RewriterError",
    "UsageError",
    "check_text",
    "disk_error",
    "disk_failure",
    "first_line",
    "forget_interruption",
    "in_python",
    "interrupt",
    "message_of",
    "names_full_disk",
    "nearest",
    "one_line",
    "raise_if_interrupted",
]


#: The beginning of the note that has the hint.
NOTE = "hint: "


class EnginebayError(Exception):
    """The root of the tree.

    Args:
        message: What failed, what was wanted, what was found; one line where it can be.
        hint: What to type or change next, without the word "hint", with flags of the command line:
            the note of the exception says it with arguments of Python.

    Example:
        >>> str(EnginebayError("the oven is cold", hint="light it"))
        'the oven is cold'
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def hint(self) -> str | None:
        """What to type or change next, in the command line's words; None for no advice."""
        return self._hint

    @hint.setter
    def hint(self, hint: str | None) -> None:
        self._hint = hint
        if notes := getattr(self, "__notes__", None):
            notes[:] = [note for note in notes if not note.startswith(NOTE)]
        if hint:
            self.add_note(f"{NOTE}{in_python(hint)}")


class UsageError(EnginebayError):
    """The call itself is wrong: an argument, a name, a combination."""

    exit_code = 2


class InputError(UsageError):
    """An input has a wrong name, dtype, rank or shape."""


class ParamsError(UsageError):
    """A backend's parameters do not fit their declaration."""


class ConfigError(UsageError):
    """A deploy config cannot be read, or has a key or a value that is not allowed.

    Attributes:
        path: The keys that lead from the config's root to the mistake; empty where the whole
            file is meant.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, path: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class ModelSourceError(UsageError):
    """The text or object that should name a model does not."""


class RewriterError(UsageError):
    """A rewriter is declared wrongly, or two equally specific ones compete."""


class ArtifactExistsError(UsageError):
    """The work directory is taken, and nothing in it was touched."""


class BackendUnavailableError(EnginebayError):
    """The named backend cannot be used here."""

    exit_code = 3


class BackendNotFoundError(BackendUnavailableError):
    """No installed distribution provides the named backend.

    Attributes:
        distribution: What ``pip`` installs for it, where it is one of Enginebay's own; else None.
    """

    distribution: str | None = None


class PluginError(BackendUnavailableError):
    """A plugin is broken, duplicated, disabled or made for another API version."""


class MissingDependencyError(EnginebayError):
    """A package that this step needs is not installed."""

    exit_code = 3


class ModelError(EnginebayError):
    """The model's own code raised."""


class ExportError(EnginebayError):
    """The model could not be turned into the wanted IR."""


class ConversionError(EnginebayError):
    """The engine's converter refused the IR or did not write what it promised."""


class LackingOperatorsError(ConversionError):
    """The engine does not have operators of the model, and nothing lowers them.

    Attributes:
        operators: For each one, such as ``aten.sort``, the paths of the modules that use it; empty
            where it was raised in a child process, from which the message alone comes back.
    """

    def __init__(
        self,
        message: str,
        *,
        operators: Mapping[str, tuple[str, ...]] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.operators = operators or {}


class InferenceError(EnginebayError):
    """The engine failed on inputs that fit."""


class ArtifactError(EnginebayError):
    """An artifact is damaged, foreign, incomplete or from a newer version."""


class FallbackError(EnginebayError):
    """The engine runs on another device than the requested one, or in strict mode falls back."""


class NotVerifiedError(EnginebayError):
    """The artifact is not verified: its numbers differ, it crashed, or nothing proves them.

    Attributes:
        verdict: The whole :class:`~enginebay.Verification`.
    """

    def __init__(self, message: str, *, verdict: Verification, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.verdict = verdict


class IsolationError(EnginebayError):
    """A child process did not do its work.

    Attributes:
        ending: How it ended: ``ended with SIGSEGV``; empty where it did not end wrongly, and where
            the error comes from a child, which raised it about a process of its own.
    """

    ending = ""


class ChildCrashedError(IsolationError):
    """A child process ended with a signal or a non-zero exit code."""


class ChildTimeoutError(IsolationError):
    """A child process, or a conversion, ran past its time limit and was ended."""


_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


def disk_error(error: BaseException | None) -> OSError | None:
    """Return the error of a full or read-only disk that led to this one; None where none did.

    Example:
        >>> disk_error(ValueError("no")) is None
        True
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK:
            return error
        error = error.__cause__ or error.__context__
    return None


def names_full_disk(text: str) -> bool:
    """True if a message has the system's words for a full or read-only disk.

    A child process and an engine in C++ pass on no more of such an error than its words.

    Example:
        >>> names_full_disk("cannot write 'm.onnx': No space left on device")
        True
    """
    return any(os.strerror(code) in text for code in _DISK)


def disk_failure(error: OSError) -> EnginebayError:
    """Build the error of a full or read-only disk; which one it is, the system's may not say."""
    what = f"'{error.filename}'" if error.filename else "a file"
    folder = os.environ.get("TMPDIR", "/tmp")  # noqa: S108  # tempfile's own default
    return EnginebayError(
        f"{what} cannot be written: {error.strerror}",
        hint=f"free some space; temporary files are in '{folder}', TMPDIR moves them",
    )


def windows_error() -> EnginebayError:
    """Build the error of every public name and every command on Windows.

    Child processes are ended as process groups, and artifacts are published under file locks:
    both are POSIX.

    Example:
        >>> str(windows_error())
        'Enginebay needs a POSIX system, and this is Windows'
    """
    return EnginebayError(
        "Enginebay needs a POSIX system, and this is Windows",
        hint="install it in the Windows Subsystem for Linux: wsl --install",
    )


def check_text(name: str) -> None:
    r"""Refuse a name whose bytes are not text in this locale: engines and manifests need text.

    Raises:
        UsageError: Python holds some of its bytes as surrogates.

    Example:
        >>> check_text("modèle")
        >>> check_text("mod\udcc3\udca8le")
        Traceback (most recent call last):
        enginebay.errors.UsageError: 'mod\udcc3\udca8le' is not text in this locale (utf-8)
        hint: rename it
    """
    try:
        name.encode()
    except UnicodeEncodeError as err:
        encoding = sys.getfilesystemencoding()
        hint = "rename it" if encoding == "utf-8" else "set LC_ALL=C.UTF-8"
        raise UsageError(f"{name!a} is not text in this locale ({encoding})", hint=hint) from err


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like ``name``, for hints; None where none is close.

    Example:
        >>> nearest("onxruntime", ["onnxruntime", "ncnn"])
        'onnxruntime'
    """
    from difflib import get_close_matches

    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LIMIT = 300

#: Where torch's first line only announces the reason.
_ANNOUNCED = re.compile(r"^(?:Constraints violated|Found the following conflicts)")
_DETAIL = re.compile(r"^\s*- (.+?)(?:\. |\.?$)", re.MULTILINE)


def message_of(err: BaseException) -> str:
    """Return ``str(err)`` without colours; what Python's own tracebacks say where that raises."""
    try:
        return _COLOUR.sub("", str(err))
    except Exception:  # noqa: BLE001  # a class of anybody's
        return "<exception str() failed>"


def first_line(err: BaseException) -> str:
    """Return the first line of the message that is not blank."""
    text = message_of(err)
    if _ANNOUNCED.match(text) and (detail := _DETAIL.search(text)):
        return detail[1]
    line = next((line.strip() for line in text.splitlines() if line.strip()), "(no message)")
    return line if len(line) <= _LIMIT else f"{line[: _LIMIT - 1]}…"


def one_line(err: BaseException) -> str:
    r"""Return the type and the first line of an exception.

    Example:
        >>> one_line(ValueError("no such file\nlook here"))
        'ValueError: no such file'
    """
    name = type(err).__name__
    if isinstance(err, SystemExit):
        return f"{name}({err.code!r})"
    return f"{name}: {first_line(err)}" if message_of(err).strip() else name


def reason(err: BaseException) -> str:
    r"""Return why something failed, in one line: the exception that others only wrap.

    Enginebay's own errors are one line that says it all, and stay as they are.

    Example:
        >>> reason(ValueError("no\nway"))
        'ValueError: no'
    """
    while err.__cause__ is not None and not isinstance(err, EnginebayError):
        err = err.__cause__
    return str(err) if isinstance(err, EnginebayError) else one_line(err)
