"""Checks of this machine, with the expected and actual state, and a command that fixes a failure.

A backend's ``check_env`` builds its report with the functions of this module::

    @eb.hookimpl
    def check_env(request):
        if request.tier is Tier.IMPORT:
            return check_import("myengine", fix="pip install myengine")
        if request.tier is Tier.DEVICE:
            return passed(request.tier, "cpu", "8 cores")
        return EnvReport()

``+`` joins reports.
"""

from __future__ import annotations

import os
import sys
import time
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Literal

import msgspec

from enginebay.errors import EnginebayError, MissingDependencyError, PluginError, one_line
from enginebay.installation import install_command

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
    "count_cores",
    "failed",
    "install_command",
    "installed_version",
    "passed",
    "require",
    "skipped",
    "thread_counts",
]


#: The name of the check of custom operators, in the device tier.
CUSTOM_OPS = "custom ops"


class Tier(StrEnum):
    """One stage of ``check-env`` for a backend; the stages run in the order of the enum."""

    METADATA = "metadata"  #: distributions are installed; nothing is imported
    IMPORT = "import"  #: the runtime imports
    DEVICE = "device"  #: the device responds
    SMOKE = "smoke"  #: a tiny model is built and run, and its outputs are correct


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check.

    Attributes:
        tier: The ``check-env`` stage to which the check belongs.
        name: A short name of what is checked, such as ``CUDAExecutionProvider``.
        status: The result of the check.
        found: The actual state in one line, such as the version or the reason for a failure.
        wanted: The expected state.
        fix: The command that fixes a failure.
        seconds: The duration of the check.
    """

    tier: Tier
    name: str
    status: Literal["ok", "failed", "skipped"]
    found: str
    wanted: str = ""
    fix: str = ""
    seconds: float = 0.0


class EnvReport(msgspec.Struct, frozen=True):
    """The results of checks, in order.

    Attributes:
        checks: The results; empty if there was nothing to check.

    Example:
        >>> report = passed(Tier.IMPORT, "engine", "engine 1.2") + EnvReport()
        >>> report.ok, len(report.checks)
        (True, 1)
    """

    checks: tuple[Check, ...] = ()

    @property
    def ok(self) -> bool:
        """True if no check failed, also if all checks were skipped or there are none."""
        return self.failed is None

    @property
    def failed(self) -> Check | None:
        """The first failed check; None if no check failed."""
        return next((check for check in self.checks if check.status == "failed"), None)

    def __add__(self, other: EnvReport) -> EnvReport:
        return EnvReport(self.checks + other.checks)


def passed(tier: Tier, name: str, found: str, *, seconds: float = 0.0) -> EnvReport:
    """Return a report with one passed check; the arguments are the fields of :class:`Check`."""
    return EnvReport((Check(tier=tier, name=name, status="ok", found=found, seconds=seconds),))


def failed(
    tier: Tier, name: str, *, found: str, wanted: str = "", fix: str = "", seconds: float = 0.0
) -> EnvReport:
    """Return a report with one failed check; the arguments are the fields of :class:`Check`."""
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
    """Return a report with one check that does not apply to this machine; ``found`` says why."""
    return EnvReport((Check(tier=tier, name=name, status="skipped", found=found),))


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # macOS does not have it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_counts() -> tuple[int, ...]:
    """Return the numbers of threads that may be the fastest: one, half of the cores, all cores.

    For :attr:`enginebay.BackendParams.speed_values`. Half of the cores are the real ones of a
    processor that runs two threads on each.

    Example:
        >>> thread_counts()[0]
        1
    """
    cores = count_cores()
    return tuple(sorted({1, max(1, cores // 2), cores}))


def check_custom_ops(names: Iterable[str], load: Callable[[], object], *, fix: str) -> EnvReport:
    """Load the custom operators that a backend's parameters name, and report the result.

    Call this in the ``check-env`` stage ``Tier.DEVICE`` if ``request.with_custom_ops`` is true.

    Args:
        names: The libraries, classes or packages with the operators; if empty, the check fails.
        load: A function that loads all operators, or raises an
            :class:`~enginebay.errors.EnginebayError`.
        fix: The command-line flag for custom operators. The report contains this fix, unless the
            error of ``load`` has a hint.

    Example:
        >>> check_custom_ops((), lambda: None, fix="--custom-ops LIBRARY").failed.found
        'none is specified'
    """
    listed = ", ".join(names)
    if not listed:
        wanted = "at least one that loads"
        return failed(Tier.DEVICE, CUSTOM_OPS, found="none is specified", wanted=wanted, fix=fix)
    try:
        load()
    except EnginebayError as err:
        wanted = f"operators that load: {listed}"
        return failed(Tier.DEVICE, CUSTOM_OPS, found=str(err), wanted=wanted, fix=err.hint or fix)
    return passed(Tier.DEVICE, CUSTOM_OPS, found=listed)


def check_import(module: str, *, wanted: str = "", fix: str = "") -> EnvReport:
    """Import a module, and return a report with its version or the import error.

    An import cannot be undone. Call this only in a process where that does not matter, such as the
    child process in which ``check_env`` runs.

    Args:
        module: The module's full name.
        wanted: The expected state, for the report of a failure.
        fix: The command that fixes a failure.

    Returns:
        A report with one check of the stage ``Tier.IMPORT``.

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
    # A submodule seldom has a version, so use the package's. vars() instead of getattr(): the
    # package "cuda" warns about access to names that it lacks.
    package = sys.modules[module.partition(".")[0]]
    version = getattr(imported, "__version__", None) or vars(package).get("__version__")
    found = f"{module} {version}" if version else f"{module}, which has no __version__"
    return passed(Tier.IMPORT, module, found, seconds=seconds)


def check_distributions(requirements: Iterable[str]) -> EnvReport:
    """Read from metadata whether distributions are installed, and return a report.

    Args:
        requirements: Requirements as in ``pyproject.toml``: ``onnxruntime>=1.20``, optionally with
            extras and markers. The requirements of an extra must be installed too. ``|`` separates
            alternatives, of which one must be installed. A requirement whose marker excludes this
            machine is skipped.

    Returns:
        A report with one check of the stage ``Tier.METADATA`` for each requirement.

    Raises:
        PluginError: A requirement is invalid.

    Example:
        >>> check_distributions(["no-such-engine>=2 | msgspec>=0.19"]).ok
        True
    """
    # A text would be read as a sequence of one-letter requirements.
    if isinstance(requirements, str):
        raise PluginError(
            f"expected a sequence of requirements, found the text '{requirements}'",
            hint=f'write ("{requirements}",)',
        )
    return sum((_check_requirement(text) for text in requirements), EnvReport())


def installed_version(requirement: str) -> str | None:
    """Return the version of a requirement's first installed alternative; None if none is installed.

    The version is also returned if it does not satisfy the requirement.

    Args:
        requirement: One requirement, as for :func:`check_distributions`.

    Example:
        >>> installed_version("no-such-engine | also-not-there") is None
        True
    """
    from importlib_metadata import PackageNotFoundError, version

    for part in requirement.split("|"):
        try:
            return version(_parse_requirement(part, requirement).name)
        except PackageNotFoundError:
            continue
    return None


def _check_requirement(text: str) -> EnvReport:
    alternatives = [_parse_requirement(part, text) for part in text.split("|")]
    applicable = [
        option for option in alternatives if not option.marker or option.marker.evaluate()
    ]
    if not applicable:
        return skipped(Tier.METADATA, alternatives[0].name, f"not for this machine: {text.strip()}")
    states = [(option, *_describe_installed(option)) for option in applicable]
    for option, found, fits in states:
        if fits:
            return passed(Tier.METADATA, option.name, found)
    # If several packages contain the same module, suggest the installed package.
    option, found, _ = next((state for state in states if state[1]), states[0])
    return failed(
        Tier.METADATA,
        option.name,
        found=found or "not installed",
        wanted=" or ".join(map(_strip_marker, applicable)),
        fix=install_command(_strip_marker(option)),
    )


def _parse_requirement(part: str, whole: str) -> Requirement:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(part.strip())
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise PluginError(
            f"invalid requirement '{whole}': {reason}",
            hint="write it as in pyproject.toml: 'name>=1.2', alternatives separated by '|'",
        ) from error


def _describe_installed(requirement: Requirement) -> tuple[str, bool]:
    """Return the installed distribution as text, and whether it satisfies the requirement.

    The text is empty if the distribution is not installed.
    """
    from importlib_metadata import PackageNotFoundError, distribution

    try:
        installed = distribution(requirement.name)
        version = installed.metadata.get("Version")
    except PackageNotFoundError:
        return "", False
    except FileNotFoundError:  # left over from an interrupted pip
        return f"{requirement.name} without metadata", False
    found = f"{requirement.name} {version or 'without a version'}"
    if not _version_fits(requirement, version):
        return found, False
    missing = _missing_for_extras(requirement, installed.requires or ())
    return (f"{found} without {', '.join(missing)}", False) if missing else (found, True)


def _version_fits(requirement: Requirement, version: str | None) -> bool:
    from packaging.version import InvalidVersion

    try:
        # An installed pre-release was installed on purpose.
        return version is not None and requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _missing_for_extras(requirement: Requirement, requires: Iterable[str]) -> list[str]:
    """Return the unsatisfied dependencies of a requirement's extras."""
    from packaging.requirements import Requirement

    if not requirement.extras:
        return []
    return [
        _strip_marker(dependency)
        for dependency in map(Requirement, requires)
        if any(_is_of_extra(dependency, extra) for extra in requirement.extras)
        and not _describe_installed(dependency)[1]
    ]


def _is_of_extra(dependency: Requirement, extra: str) -> bool:
    marker = dependency.marker
    return bool(marker and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}))


def _strip_marker(requirement: Requirement) -> str:
    from packaging.requirements import Requirement

    plain = Requirement(str(requirement))
    plain.marker = None
    return str(plain)


#: Package → its minimum version. Earlier versions of onnx read external data outside the model's
#: folder.
MINIMUM = {"onnx": "1.21"}

_EXPORTING = "enginebay[export]"

#: Packages of the extra ``export``.
_EXPORT = ("torch", "onnx", "onnxscript")


def missing_package(err: BaseException) -> str | None:
    """Return the missing package that caused an error; None if the error has another cause.

    Example:
        >>> missing_package(ModuleNotFoundError("No module named 'a.b'", name="a.b"))
        'a'
        >>> missing_package(ModuleNotFoundError("No module named 'json.a'", name="json.a"))
    """
    from importlib.machinery import PathFinder

    name = err.name if isinstance(err, ModuleNotFoundError) else None
    package = (name or "").partition(".")[0]
    # An installed package without the imported submodule is not a missing package.
    if not package or package in sys.modules or PathFinder.find_spec(package):
        return None
    return package


def install_hint(package: str) -> str:
    """Return the hint for a missing package that the model's own code imports.

    Example:
        >>> install_hint("cv2")
        'pip install cv2, or the package that provides it'
    """
    if package in _EXPORT:
        return install_command(_EXPORTING)
    return f"{install_command(package)}, or the package that provides it"


def require(*packages: str) -> None:
    """Import packages, and raise an error if one of them is missing or too old.

    Raises:
        MissingDependencyError: A package is missing, cannot be imported, or is too old.
    """
    for package in packages:
        try:
            import_module(package)
        except ImportError as err:
            message = f"this step requires '{package}', which cannot be imported: {err}"
            raise MissingDependencyError(message, hint=install_command(_EXPORTING)) from err
        _require_version(package)


def _require_version(package: str) -> None:
    minimum = MINIMUM.get(package)
    found = installed_version(package) if minimum else None
    if not (minimum and found):
        return
    from packaging.version import Version

    if Version(found) < Version(minimum):
        message = f"this step requires '{package}' {minimum} or newer, found {found}"
        raise MissingDependencyError(message, hint=install_command(_EXPORTING))
