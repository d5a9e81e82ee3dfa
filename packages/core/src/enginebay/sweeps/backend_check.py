"""The backend on the machine that runs a cell: is it usable, and what is installed?"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from enginebay.backend import elsewhere, get_backend, own_params
from enginebay.environment import installed_version
from enginebay.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from enginebay.environment import EnvReport


def checked_environment(name: str, params: Mapping[str, Any]) -> EnvReport:
    """Return what ``enginebay check-env`` finds here.

    Args:
        name: The backend.
        params: Parameters by name, of which each backend has its own. With those that build for
            other machines, the backend can be used without the device.

    Raises:
        BackendUnavailableError: The backend is not installed, or its plugin is broken.
        ParamsError: They do not fit the backend.
    """
    backend = get_backend(name)
    given = backend.params_from(own_params(backend, params))
    return backend.check_env(given) if elsewhere(backend, given) else _checked(name)


@cache
def _checked(name: str) -> EnvReport:
    """Check a backend with its own parameters; it takes seconds, so once in a process."""
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
