"""The error for images of a size that a network is not made for."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextmanager
def wrap_size_errors(name: str, size: Sequence[int], hint: str) -> Iterator[None]:
    """In a ``with`` block that runs a network, say that it is not for images of this size.

    Args:
        name: The model's name.
        size: Channels, height and width of the images.
        hint: What to type instead.

    Raises:
        ModelSourceError: The network raised.

    Example:
        >>> with wrap_size_errors("net.py", (3, 64, 64), "--input sets another size"):
        ...     pass
    """
    try:
        yield
    except ModelSourceError:  # an operator that this mmcv lacks
        raise
    except Exception as err:  # torch repeats no size
        why = str(err).partition("\n")[0]
        raise ModelSourceError(
            f"'{name}' is not for images of {'x'.join(map(str, size))}: "
            f"{type(err).__name__}: {why}",
            hint=hint,
        ) from err
