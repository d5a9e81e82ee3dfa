"""The backend on the machine that runs a cell: is it usable, and what is installed?"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from enginebay import __version__, get_backend
from enginebay.environment import installed_version

if TYPE_CHECKING:
    from enginebay.environment import EnvReport


@cache
def checked_environment(name: str) -> EnvReport:
    """Return what ``enginebay check-env`` finds here; it takes seconds, so once in a process.

    Raises:
        BackendUnavailableError: The backend is not installed, or its plugin is broken.
    """
    return get_backend(name).check_env()


@cache
def installed_versions(name: str) -> dict[str, str]:
    """Return the versions of Enginebay, of the backend's plugin and engine, and of torch.

    Raises:
        BackendUnavailableError: The backend is not installed, or its plugin is broken.
    """
    backend = get_backend(name)
    found = {"enginebay": __version__, backend.distribution: backend.distribution_version}
    for wanted in (*backend.info.runtime_distributions, "torch"):
        for alternative in wanted.split("|"):
            if version := installed_version(alternative):
                found[Requirement(alternative).name] = version
    return found
