"""Every error that Enginebay raises on purpose.

::

    EnginebayError                    exit code 1
    ├── UsageError                    2   the call itself is wrong
    │   ├── InputError                2   a tensor's name, dtype or shape
    │   ├── ParamsError               2   a backend's parameters, a shape string
    │   ├── ConfigError               2   a deploy config's text, keys or values
    │   ├── ModelSourceError          2   MODEL does not name a model
    │   ├── RewriterError             2   a rewriter's declaration
    │   └── ArtifactExistsError       2   the work directory is not empty
    ├── BackendUnavailableError       3   the named backend cannot be used
    │   ├── BackendNotFoundError      3   no installed distribution provides it
    │   └── PluginError               3   its plugin is broken, disabled or too old
    ├── MissingDependencyError        3   a package that this step needs is not installed
    ├── ModelError                    1   the model's own code raised
    ├── ExportError                   1   model → IR failed
    ├── ConversionError               1   IR → engine failed
    │   └── LackingOperatorsError     1   unsupported operators remain; carries ``.operators``
    ├── InferenceError                1   the engine failed on good inputs
    ├── ArtifactError                 1   an artifact is damaged, too new or for another machine
    ├── FallbackError                 1   the engine does not run on the requested device
    ├── NotVerifiedError              1   the outputs are not verified; carries ``.verdict``
    └── IsolationError                1   a child process failed
        ├── ChildCrashedError         1   it ended with a signal or a non-zero exit code
        └── ChildTimeoutError         1   it exceeded its time limit

A message starts with the failure and quotes the value; the expected and the found value follow.
``hint`` is the command or the argument to change.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay.errors.full_disk import (
        disk_error as disk_error,
        names_full_disk as names_full_disk,
    )
    from enginebay.errors.hints import (
        Hint as Hint,
        argument as argument,
        next_command as next_command,
    )
    from enginebay.errors.interruption import (
        forget_interruption as forget_interruption,
        interrupt as interrupt,
        raise_if_interrupted as raise_if_interrupted,
    )
    from enginebay.errors.text import (
        did_you_mean as did_you_mean,
        first_line as first_line,
        message_of as message_of,
        nearest as nearest,
        one_line as one_line,
        without_colours as without_colours,
    )


# A program without an error needs only the classes.
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "errors.full_disk": "disk_error names_full_disk",
        "errors.hints": "Hint argument next_command",
        "errors.interruption": "forget_interruption interrupt raise_if_interrupted",
        "errors.text": "did_you_mean first_line message_of nearest one_line without_colours",
    },
)
__all__ += ["check_text", "disk_failure", "missing_file"]


#: The prefix of the exception note that holds the hint.
NOTE = "hint: "


class EnginebayError(Exception):
    """Base class of all errors in this module.

    Args:
        message: The failure, then the expected and the found value; one line if possible.
        hint: The command or argument to type next, without the word "hint". Write it with flags of
            the command line; Python arguments replace the flags in the exception's note. Options
            that are neither core's nor a backend's parameters are data in a :class:`Hint`.

    Attributes:
        full_hint: The hint as it was passed, a text or a :class:`Hint`: an error that replaces this
            one passes it on by ``hint=err.full_hint``.

    Example:
        >>> str(EnginebayError("the oven is cold", hint="light it"))
        'the oven is cold'
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | Hint | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def hint(self) -> str | None:
        """The command or argument to type next, with flags of the command line, or None."""
        hint = self.full_hint
        return hint if hint is None or isinstance(hint, str) else hint.text

    @hint.setter
    def hint(self, hint: str | Hint | None) -> None:
        self.full_hint = hint
        # A handler may replace the hint; the old note must not stay.
        if notes := getattr(self, "__notes__", None):
            notes[:] = [note for note in notes if not note.startswith(NOTE)]
        # A note, since Python prints notes below the message in a traceback.
        if hint:
            from enginebay.errors.hints import translate_hint

            python = translate_hint(hint) if isinstance(hint, str) else hint.python
            self.add_note(f"{NOTE}{python}")


class UsageError(EnginebayError):
    """A call or command line is wrong: an argument, a name, or a combination of arguments."""

    exit_code = 2


class InputError(UsageError):
    """An input has a wrong name, dtype, rank or shape."""


class ParamsError(UsageError):
    """A backend's parameters do not fit their declaration."""


class ConfigError(UsageError):
    """A deploy config cannot be read, or has a key or a value that is not allowed.

    Attributes:
        path: The keys from the config's root to the mistake; empty if the whole file is wrong.
    """

    def __init__(
        self, message: str, *, hint: str | Hint | None = None, path: tuple[str | int, ...] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class ModelSourceError(UsageError):
    """The text or object that was passed as the model does not specify a model."""


class RewriterError(UsageError):
    """A rewriter is declared wrongly, or two rewriters are equally specific."""


class ArtifactExistsError(UsageError):
    """The work directory is not empty; nothing in it was changed."""


class BackendUnavailableError(EnginebayError):
    """The named backend cannot be used on this machine."""

    exit_code = 3


class BackendNotFoundError(BackendUnavailableError):
    """No installed distribution provides the named backend.

    Attributes:
        distribution: The distribution to install for one of Enginebay's own backends, else None.
    """

    distribution: str | None = None


class PluginError(BackendUnavailableError):
    """A plugin is broken, duplicated, disabled or made for another API version."""


class MissingDependencyError(EnginebayError):
    """A package that this step needs is not installed."""

    exit_code = 3


class ModelError(EnginebayError):
    """The model's own code raised an exception."""


class ExportError(EnginebayError):
    """The model could not be exported to the requested IR."""


class ConversionError(EnginebayError):
    """The engine's converter refused the IR or did not write its output files."""


class LackingOperatorsError(ConversionError):
    """The engine does not support operators of the model, and no lowering replaces them.

    Attributes:
        operators: Operator, such as ``aten.sort`` → the paths of the modules that use the operator.
            Empty if the error was raised in a child process, which transmits only the message.
    """

    def __init__(
        self,
        message: str,
        *,
        operators: Mapping[str, tuple[str, ...]] | None = None,
        hint: str | Hint | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.operators = operators or {}


class InferenceError(EnginebayError):
    """The engine failed on valid inputs."""


class ArtifactError(EnginebayError):
    """An artifact is damaged, incomplete, for another machine or from a newer version."""


class FallbackError(EnginebayError):
    """The engine does not run on the requested device, or, in strict mode, uses a fallback."""


class FailedVerification(Protocol):
    """What :class:`NotVerifiedError` offers of a :class:`~enginebay.Verification`.

    A protocol, since the errors stand below the verdict: the object has all other attributes too.
    """

    @property
    def verdict(self) -> str:
        """``mismatched``, ``unverified`` or ``crashed``."""

    @property
    def reason(self) -> str:
        """Why the verdict is ``unverified`` or ``crashed``."""

    @property
    def outputs(self) -> Sequence[Any]:
        """Each output's comparison in its worst sample."""

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as the document that ``--json`` prints."""


class NotVerifiedError(EnginebayError):
    """The artifact is not verified: its outputs differ, its engine crashed, or evidence is missing.

    Attributes:
        verdict: The full :class:`~enginebay.Verification`.
        receipt: The :class:`~enginebay.Receipt` of the engine that ran; None if it crashed.
    """

    receipt: Any = None

    def __init__(
        self, message: str, *, verdict: FailedVerification, hint: str | Hint | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.verdict = verdict


class IsolationError(EnginebayError):
    """A child process failed.

    Attributes:
        ending: How the child ended, such as ``ended with SIGSEGV``. Empty if the child ended
            normally, or if the error is about a process that the child itself had started.
    """

    ending = ""


class ChildCrashedError(IsolationError):
    """A child process ended with a signal or a non-zero exit code."""


class ChildTimeoutError(IsolationError):
    """A child process or a conversion exceeded its time limit and was ended."""


__all__ += [n for n, c in vars().items() if isinstance(c, type) and issubclass(c, EnginebayError)]


def missing_file(name: str, folder: Path | None = None) -> ModelSourceError:
    """Return the error for a file that does not exist.

    Args:
        name: The file, as the user wrote it.
        folder: The folder to which a relative name refers; by default the current folder.
    """
    from pathlib import Path

    from enginebay.errors.text import nearest

    path = Path(folder or "", name)
    # Without suffixes, which would make any two names similar.
    guess = nearest(path.stem, [file.stem for file in path.parent.glob(f"*{path.suffix}")])
    hint = f"did you mean '{Path(name).with_stem(guess)}'?" if guess else None
    return ModelSourceError(f"no file '{name}'", hint=hint)


def disk_failure(error: OSError) -> EnginebayError:
    """Return the error to raise for a full or read-only disk."""
    # A failed write has no file name; only a failed open has.
    file = f"'{error.filename}'" if error.filename else "a file"
    folder = os.environ.get("TMPDIR", "/tmp")  # noqa: S108  # tempfile's own default
    return EnginebayError(
        f"{file} cannot be written: {error.strerror}",
        hint=f"free some space, or set TMPDIR to a folder other than '{folder}'",
    )


def windows_error() -> EnginebayError:
    """Return the error that every public name and every command raises on Windows.

    Enginebay ends child processes by their process group, and protects artifacts by file locks.
    Both are functions of POSIX systems.

    Example:
        >>> str(windows_error())
        'Enginebay needs a POSIX system, and this is Windows'
    """
    return EnginebayError(
        "Enginebay needs a POSIX system, and this is Windows",
        hint="install it in the Windows Subsystem for Linux: wsl --install",
    )


def check_text(name: str) -> None:
    r"""Check that a file name can be encoded as UTF-8, as engines and manifests require.

    Raises:
        UsageError: Python could not decode some bytes of the name, and stored lone surrogates.

    Example:
        >>> check_text("modèle")
        >>> try:
        ...     check_text("mod\udcc3\udca8le")
        ... except UsageError as err:
        ...     print(err)
        'mod\udcc3\udca8le' cannot be encoded in this locale (utf-8)
    """
    try:
        name.encode()
    except UnicodeEncodeError as err:
        encoding = sys.getfilesystemencoding()
        hint = "rename it" if encoding == "utf-8" else "set LC_ALL=C.UTF-8"
        raise UsageError(
            f"{name!a} cannot be encoded in this locale ({encoding})", hint=hint
        ) from err


def reason(err: BaseException) -> str:
    r"""Return the root cause of an exception in one line.

    The message of an Enginebay error is returned unchanged, since it describes the cause itself.

    Example:
        >>> reason(ValueError("no\nway"))
        'ValueError: no'
    """
    from enginebay.errors.text import one_line

    err = find_root_cause(err)
    return str(err) if isinstance(err, EnginebayError) else one_line(err)


def find_root_cause(err: BaseException) -> BaseException:
    """Return the first EnginebayError in an exception's chain of causes, or else the last cause."""
    while err.__cause__ is not None and not isinstance(err, EnginebayError):
        err = err.__cause__
    return err
