"""Says which package is missing, and how to get it, before anything else goes wrong."""

from __future__ import annotations

from importlib import import_module, metadata

from packaging.version import Version

from enginebay.errors import MissingDependencyError

#: onnx before 1.21 follows external data out of the model's folder.
MINIMUM = {"onnx": "1.21"}

_INSTALL = 'pip install "enginebay[export]"'


def require(*packages: str) -> None:
    """Make sure that these packages import and are new enough.

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
    if wanted and Version(found := metadata.version(package)) < Version(wanted):
        message = f"'{package}' {found} is installed, and this step needs {wanted} or newer"
        raise MissingDependencyError(message, hint=_INSTALL)
