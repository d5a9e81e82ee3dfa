"""Imports a library that may be missing, and shortens the errors of downloads."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from logging import ERROR, getLogger
from typing import TYPE_CHECKING

from enginebay.authors.sources import wrap_import_errors
from enginebay.errors import EnginebayError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


def import_library(name: str) -> ModuleType:
    """Import timm, torchvision or transformers.

    Raises:
        MissingDependencyError: The library is not installed, or cannot be imported.
    """
    with wrap_import_errors(name, f"enginebay-models[{name}]"):
        return import_module(name)


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
