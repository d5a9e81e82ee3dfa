"""Checks a backend on a sweep worker's machine, and lists the package versions of this machine."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from enginebay import __version__, get_backend
from enginebay.environment import installed_version

if TYPE_CHECKING:
    from enginebay.environment import EnvReport


@cache  # the checks take seconds
def check_backend(name: str) -> EnvReport:
    """Return the result of ``enginebay check-env`` for a backend on this machine.

    Raises:
        BackendUnavailableError: The backend is not installed, or its plugin is broken.
    """
    return get_backend(name).check_env()


@cache  # a worker's process runs many cells with the same backend
def list_versions(name: str) -> dict[str, str]:
    """Return the versions of Enginebay, the backend's plugin, its engine and torch, by package.

    Raises:
        BackendUnavailableError: The backend is not installed, or its plugin is broken.
    """
    backend = get_backend(name)
    versions = {"enginebay": __version__, backend.distribution: backend.distribution_version}
    for requirement in (*backend.info.runtime_distributions, "torch"):
        for alternative in requirement.split("|"):  # such as a package for CPUs, or for GPUs
            if version := installed_version(alternative):
                versions[Requirement(alternative).name] = version
    return versions
