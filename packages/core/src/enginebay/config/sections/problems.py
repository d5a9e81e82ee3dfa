"""What is wrong with a config: collected, so that a check can show all of it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.errors import ConfigError, ParamsError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Problems(list[ConfigError]):
    """The errors of one config, in the order in which they were found."""

    def unknown(self, path: tuple[Any, ...], known: Iterable[str]) -> None:
        """A key that nobody knows."""
        names = sorted(known)
        where = ".".join(map(str, path[:-1])) or "the config"
        guess = nearest(str(path[-1]), names)
        self.append(
            ConfigError(
                f"'{path[-1]}' is not a key of {where}, which may have {', '.join(names)}",
                hint=f"did you mean '{guess}'?" if guess else None,
                path=path,
            )
        )

    def wrong(self, path: tuple[Any, ...], message: str, hint: str | None = None) -> None:
        """A value that is not what it should be."""
        self.append(ConfigError(message, hint=hint, path=path))

    @contextmanager
    def collecting(self, path: tuple[Any, ...]) -> Iterator[None]:
        """Collect what a value's own check raises."""
        try:
            yield
        except ParamsError as err:
            self.wrong(path, str(err), err.hint)

    def raise_first(self) -> None:
        """Raise the first one, if there is any.

        Raises:
            ConfigError: There is.
        """
        if self:
            more = f" (and {len(self) - 1} more problems)" if len(self) > 1 else ""
            first = self[0]
            raise ConfigError(f"{first}{more}", hint=first.hint, path=first.path)
