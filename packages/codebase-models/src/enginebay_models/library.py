"""Import of a library that may be missing, and the error for a name that it does not have."""

from __future__ import annotations

from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from logging import ERROR, getLogger
from typing import TYPE_CHECKING, Any

from enginebay.errors import EnginebayError, MissingDependencyError, ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def library(name: str) -> Any:
    """Import a library.

    Raises:
        MissingDependencyError: It is not installed, or does not import.
    """
    if find_spec(name) is None:
        raise MissingDependencyError(
            f"'{name}:' names models of {name}, which is not installed",
            hint=f"pip install 'enginebay-models[{name}]'",
        )
    try:
        return import_module(name)
    except Exception as err:  # torchvision beside a torch of another build raises RuntimeError
        raise MissingDependencyError(
            f"{name} is installed and does not import: {type(err).__name__}: {err}",
            hint="install builds of torch and torchvision that belong together",
        ) from err


@contextmanager
def downloads(model: str) -> Iterator[None]:
    """Turn the errors of a download into one line; the Hub's client logs each of its attempts.

    Raises:
        EnginebayError: What the block downloads cannot be had.
    """
    log = getLogger("huggingface_hub")
    level = log.level
    log.setLevel(ERROR)
    try:
        yield
    except OSError as err:  # all of urllib's, requests' and the Hub's
        why = " ".join(str(err).split())
        raise EnginebayError(
            f"the pretrained weights of '{model}' cannot be downloaded: {why[:200]}",
            hint="look at the connection; weights that are here are read by --weights FILE",
        ) from err
    finally:
        log.setLevel(level)


def unknown(scheme: str, name: str, known: Iterable[str]) -> ModelSourceError:
    """Return the error for an unknown model; its hint has the nearest names."""
    close = get_close_matches(name, list(known), n=3, cutoff=0.5)
    return ModelSourceError(
        f"{scheme} has no model '{name}'",
        hint=f"nearest are {', '.join(close)}" if close else None,
    )
