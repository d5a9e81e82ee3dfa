"""Reports on this machine: what was found, what was wanted, what to type to fix it.

A backend's ``check_env`` builds its report from the functions here::

    @eb.hookimpl
    def check_env(request):
        if request.tier is Tier.IMPORT:
            return check_import("myengine", fix="pip install myengine")
        if request.tier is Tier.DEVICE:
            return passed(request.tier, "cpu", "8 cores")
        return EnvReport()

Reports are added with ``+``.
"""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Literal

import msgspec

from enginebay.errors import EnginebayError, MissingDependencyError, PluginError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packaging.requirements import Requirement

__all__ = [
    "Check",
    "EnvReport",
    "Tier",
    "check_custom_ops",
    "check_distributions",
    "check_import",
    "failed",
    "installed_version",
    "passed",
    "require",
    "skipped",
]


#: The name of the check of custom operators, in the device tier.
CUSTOM_OPS = "custom ops"


class Tier(StrEnum):
    """The depth of a check. Iterating gives the tiers in the order they are checked."""

    METADATA = "metadata"  #: distributions are installed; nothing is imported
    IMPORT = "import"  #: the runtime imports
    DEVICE = "device"  #: the device responds
    SMOKE = "smoke"  #: a tiny model is built, runs and gives the right numbers


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check.

    Attributes:
        tier: Its depth.
        name: Its subject, short: ``onnxruntime``, ``CUDAExecutionProvider``.
        status: Its outcome.
        found: What is there, in one line: a version, the reason of a failure.
        wanted: What should be there.
        fix: The command to type.
        seconds: Its duration.
    """

    tier: Tier
    name: str
    status: Literal["ok", "failed", "skipped"]
    found: str
    wanted: str = ""
    fix: str = ""
    seconds: float = 0.0


class EnvReport(msgspec.Struct, frozen=True):
    """The checks that were made, in order.

    Attributes:
        checks: Empty where there was nothing to check.

    Example:
        >>> report = passed(Tier.IMPORT, "engine", "engine 1.2") + EnvReport()
        >>> report.ok, len(report.checks)
        (True, 1)
    """

    checks: tuple[Check, ...] = ()

    @property
    def ok(self) -> bool:
        """True where no check failed: an empty report is ok, and so is a skipped check."""
        return self.failed is None

    @property
    def failed(self) -> Check | None:
        """The first check that failed, if any."""
        return next((check for check in self.checks if check.status == "failed"), None)

    def __add__(self, other: EnvReport) -> EnvReport:
        return EnvReport(self.checks + other.checks)


def passed(tier: Tier, name: str, found: str, *, seconds: float = 0.0) -> EnvReport:
    """Report one check that passed; the arguments are :class:`Check`'s."""
    return EnvReport((Check(tier=tier, name=name, status="ok", found=found, seconds=seconds),))


def failed(
    tier: Tier, name: str, *, found: str, wanted: str = "", fix: str = "", seconds: float = 0.0
) -> EnvReport:
    """Report one check that failed; the arguments are :class:`Check`'s."""
    check = Check(
        tier=tier,
        name=name,
        status="failed",
        found=found,
        wanted=wanted,
        fix=fix,
        seconds=seconds,
    )
    return EnvReport((check,))


def skipped(tier: Tier, name: str, found: str) -> EnvReport:
    """Report one check that does not apply here; ``found`` says why."""
    return EnvReport((Check(tier=tier, name=name, status="skipped", found=found),))


def check_custom_ops(names: Iterable[str], load: Callable[[], object], *, fix: str) -> EnvReport:
    """Load the custom operators that a backend's parameters name, and report which.

    Call it in the device tier where ``request.with_custom_ops`` is true.

    Args:
        names: Libraries, classes or packages; none is a failure, as there is nothing to load.
        load: Loads all of them, or raises an :class:`~enginebay.errors.EnginebayError`.
        fix: The flag that names them, for the report of a failure that has no hint.

    Example:
        >>> check_custom_ops((), lambda: None, fix="--custom-ops LIBRARY").failed.found
        'none is named'
    """
    listed = ", ".join(names)
    if not listed:
        wanted = "at least one that loads"
        return failed(Tier.DEVICE, CUSTOM_OPS, found="none is named", wanted=wanted, fix=fix)
    try:
        load()
    except EnginebayError as err:
        wanted = f"operators that load: {listed}"
        return failed(Tier.DEVICE, CUSTOM_OPS, found=str(err), wanted=wanted, fix=err.hint or fix)
    return passed(Tier.DEVICE, CUSTOM_OPS, found=listed)


def check_import(module: str, *, wanted: str = "", fix: str = "") -> EnvReport:
    """Import a module and report its version, or in one line why it does not import.

    The import changes this process for good. Call it where that does not matter, as in
    ``check_env``, which runs in a child process.

    Args:
        module: Its full name.
        wanted: What should be there, for the report of a failure.
        fix: The command to type, for the report of a failure.

    Returns:
        One check of tier import.

    Example:
        >>> check_import("no_such_engine", fix="pip install no-such-engine").failed.found
        "ModuleNotFoundError: No module named 'no_such_engine'"
    """
    started = time.perf_counter()
    try:
        imported = import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a broken wheel can raise anything
        seconds = time.perf_counter() - started
        found = one_line(error)
        return failed(Tier.IMPORT, module, found=found, wanted=wanted, fix=fix, seconds=seconds)
    seconds = time.perf_counter() - started
    # A submodule seldom has a version of its own. The package's is read from its namespace: "cuda"
    # warns at any access to a name that it does not have.
    package = sys.modules[module.partition(".")[0]]
    version = getattr(imported, "__version__", None) or vars(package).get("__version__")
    found = f"{module} {version}" if version else f"{module}, which has no __version__"
    return passed(Tier.IMPORT, module, found, seconds=seconds)


def check_distributions(requirements: Iterable[str]) -> EnvReport:
    """Check that distributions are installed, by their metadata; nothing is imported.

    Args:
        requirements: As in a ``pyproject.toml``: ``onnxruntime>=1.20``, with extras and markers
            where needed. Alternatives are separated by ``|``; one of them is enough. What an
            extra requires must be installed too. A requirement whose marker excludes this machine
            is skipped.

    Returns:
        One check of tier metadata for each requirement.

    Raises:
        PluginError: A requirement cannot be read.

    Example:
        >>> check_distributions(["no-such-engine>=2 | msgspec>=0.19"]).ok
        True
    """
    if isinstance(requirements, str):
        raise PluginError(
            f"the requirements are one text, '{requirements}', and not several",
            hint=f'write ("{requirements}",)',
        )
    return sum((_check_requirement(text) for text in requirements), EnvReport())


def installed_version(requirement: str) -> str | None:
    """Return the version of the first alternative that is installed, whatever is wanted.

    Args:
        requirement: As for :func:`check_distributions`.

    Example:
        >>> installed_version("no-such-engine | also-not-there") is None
        True
    """
    from importlib_metadata import PackageNotFoundError, version

    for part in requirement.split("|"):
        try:
            return version(_parse(part, requirement).name)
        except PackageNotFoundError:
            continue
    return None


def _check_requirement(text: str) -> EnvReport:
    alternatives = [_parse(part, text) for part in text.split("|")]
    here = [option for option in alternatives if not option.marker or option.marker.evaluate()]
    if not here:
        return skipped(Tier.METADATA, alternatives[0].name, f"not for this machine: {text.strip()}")
    states = [(option, *_state(option)) for option in here]
    for option, found, good in states:
        if good:
            return passed(Tier.METADATA, option.name, found)
    # Of two packages that own the same module, suggest the one that is installed.
    option, found, _ = next((state for state in states if state[1]), states[0])
    return failed(
        Tier.METADATA,
        option.name,
        found=found or "not installed",
        wanted=" or ".join(_plain(each) for each in here),
        fix=f'pip install "{_plain(option)}"',
    )


def _parse(part: str, whole: str) -> Requirement:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(part.strip())
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise PluginError(
            f"requirement '{whole}' cannot be read: {reason}",
            hint="write it as in pyproject.toml: 'name>=1.2', alternatives separated by '|'",
        ) from error


def _state(wanted: Requirement) -> tuple[str, bool]:
    """Describe what is installed under the name ("" for nothing), and say if it fits."""
    from importlib_metadata import PackageNotFoundError, distribution

    try:
        installed = distribution(wanted.name)
        version = installed.metadata.get("Version")
    except PackageNotFoundError:
        return "", False
    except FileNotFoundError:  # a folder that an interrupted pip left behind
        return f"{wanted.name} without metadata", False
    found = f"{wanted.name} {version or 'without a version'}"
    if not _version_fits(wanted, version):
        return found, False
    missing = _missing_for_extras(wanted, installed.requires or ())
    return (f"{found} without {', '.join(missing)}", False) if missing else (found, True)


def _version_fits(wanted: Requirement, version: str | None) -> bool:
    from packaging.version import InvalidVersion

    try:
        # A pre-release that is installed was put there on purpose.
        return version is not None and wanted.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _missing_for_extras(wanted: Requirement, requires: Iterable[str]) -> list[str]:
    """List what the wanted extras require and what is not installed."""
    from packaging.requirements import Requirement

    if not wanted.extras:
        return []
    return [
        _plain(dependency)
        for dependency in map(Requirement, requires)
        if any(_belongs_to(dependency, extra) for extra in wanted.extras)
        and not _state(dependency)[1]
    ]


def _belongs_to(dependency: Requirement, extra: str) -> bool:
    marker = dependency.marker
    return bool(marker and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}))


def _plain(requirement: Requirement) -> str:
    """Write the requirement without its marker, as pip takes it on a command line."""
    from packaging.requirements import Requirement

    plain = Requirement(str(requirement))
    plain.marker = None
    return str(plain)


#: onnx before 1.21 follows external data out of the model's folder.
MINIMUM = {"onnx": "1.21"}

_INSTALL = 'pip install "enginebay[export]"'

#: Packages that the extra ``export`` brings.
_EXPORT = ("torch", "onnx", "onnxscript")


def missing_package(err: BaseException) -> str | None:
    """Return the name of the package whose absence raised this error; None for any other error.

    Example:
        >>> missing_package(ModuleNotFoundError("No module named 'a.b'", name="a.b"))
        'a'
        >>> missing_package(ModuleNotFoundError("No module named 'json.a'", name="json.a"))
    """
    from importlib.machinery import PathFinder

    name = err.name if isinstance(err, ModuleNotFoundError) else None
    package = (name or "").partition(".")[0]
    if not package or package in sys.modules or PathFinder.find_spec(package):
        return None
    return package


def install_hint(package: str) -> str:
    """Return what to type where a package is missing that somebody else's code imports.

    Example:
        >>> install_hint("onnx"), install_hint("cv2")
        ('pip install "enginebay[export]"', 'pip install cv2, or whatever else provides it')
    """
    return (
        _INSTALL if package in _EXPORT else f"pip install {package}, or whatever else provides it"
    )


def require(*packages: str) -> None:
    """Import these packages and check that they are new enough.

    Raises:
        MissingDependencyError: One is missing, does not import, or is too old.
    """
    for package in packages:
        try:
            import_module(package)
        except ImportError as err:
            message = f"'{package}' is needed for this step and does not import: {err}"
            raise MissingDependencyError(message, hint=_INSTALL) from err
        _require_version(package)


def _require_version(package: str) -> None:
    wanted = MINIMUM.get(package)
    found = installed_version(package) if wanted else None
    if not (wanted and found):
        return
    from packaging.version import Version

    if Version(found) < Version(wanted):
        message = f"'{package}' {found} is installed, and this step needs {wanted} or newer"
        raise MissingDependencyError(message, hint=_INSTALL)
