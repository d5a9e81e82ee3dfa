"""Errors about the library of a codebase: missing, unable to be imported, without a model."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from enginebay.errors import MissingDependencyError, ModelSourceError, one_line
from enginebay.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@contextmanager
def wrap_import_errors(library: str, package: str, distribution: str = "") -> Iterator[None]:
    """In a ``with`` block that imports a codebase's library, say why that fails and what to type.

    Args:
        library: The library's module, which is also the scheme of its models.
        package: The requirement that installs the library, such as ``enginebay-models[timm]``.
        distribution: The distribution that it installs, if others have the same module.

    Raises:
        MissingDependencyError: The library is not installed, or cannot be imported.

    Example:
        >>> with wrap_import_errors("json", "enginebay-models"):
        ...     import json
    """
    try:
        yield
    except Exception as err:  # libraries check each other's versions; torchvision raises too
        from importlib.metadata import packages_distributions, version

        command = install_command(package)
        if isinstance(err, ModuleNotFoundError) and err.name == library:
            raise MissingDependencyError(
                f"a model '{library}:NAME' requires {library}, which is not installed", hint=command
            ) from err
        found = sorted({*packages_distributions().get(library, ())})
        versions = ", ".join(f"{name} {version(name)}" for name in found)
        if distribution and {*found} - {distribution}:
            # Both have the same files: the removal of one damages the other.
            command = f"pip uninstall {' '.join(found)}, then {command}"
        if "torchvision" in str(err):
            command += ", with matching builds of torch and torchvision"
        raise MissingDependencyError(
            f"{library} is installed{versions and f' ({versions})'} but cannot be imported: "
            f"{one_line(err)}",
            hint=command,
        ) from err


def no_model_error(library: str, name: str, known: Iterable[str]) -> ModelSourceError:
    """Return the error for an unknown model; its hint lists known names that are similar.

    Example:
        >>> no_model_error("timm", "resnet1", ["resnet18", "resnet34", "vit"]).hint
        'similar names: resnet18'
    """
    from difflib import get_close_matches

    names = list(known)
    # Names of configs end with the training setup, which users often omit.
    close = [other for other in names if other.lower().startswith(name.lower())][:3]
    close = close or get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"similar names: {', '.join(close)}" if close else None
    return ModelSourceError(f"{library} has no model '{name}'", hint=hint)
