"""Imports a library that may be missing; creates the errors for downloads and unknown models."""

from __future__ import annotations

from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from logging import ERROR, getLogger
from typing import TYPE_CHECKING

from enginebay.environment import install_command
from enginebay.errors import EnginebayError, MissingDependencyError, ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType


def import_library(name: str) -> ModuleType:
    """Import timm, torchvision or transformers.

    Raises:
        MissingDependencyError: The library is not installed, or cannot be imported.
    """
    if find_spec(name) is None:
        raise MissingDependencyError(
            f"a model '{name}:NAME' requires {name}, which is not installed",
            hint=install_command(f"enginebay-models[{name}]"),
        )
    try:
        return import_module(name)
    except Exception as err:  # torchvision raises RuntimeError for a different build of torch
        raise MissingDependencyError(
            f"{name} is installed but cannot be imported: {type(err).__name__}: {err}",
            hint="install matching builds of torch and torchvision",
        ) from err


@contextmanager
def wrap_download_errors(model: str) -> Iterator[None]:
    """In a ``with`` block, shorten download errors to one line, and silence ``huggingface_hub``.

    Raises:
        EnginebayError: The download failed.
    """
    log = getLogger("huggingface_hub")
    level = log.level
    log.setLevel(ERROR)
    try:
        yield
    except OSError as err:  # the base of urllib's, requests' and the Hub's errors
        why = " ".join(str(err).split())
        raise EnginebayError(
            f"the pretrained weights of '{model}' cannot be downloaded: {why[:200]}",
            hint="check the connection; for a local file, use --weights FILE",
        ) from err
    finally:
        log.setLevel(level)


def make_unknown_error(scheme: str, name: str, known: Iterable[str]) -> ModelSourceError:
    """Return the error for an unknown model; the error's hint lists similar names."""
    close = get_close_matches(name, list(known), n=3, cutoff=0.5)
    return ModelSourceError(
        f"{scheme} has no model '{name}'",
        hint=f"similar names: {', '.join(close)}" if close else None,
    )
