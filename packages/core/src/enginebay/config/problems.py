"""The problems of a config, collected so that a check can show all of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.config.places import Place, Table
from enginebay.errors import BackendNotFoundError, ConfigError, UsageError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Problems(list[ConfigError]):
    """The errors of one config, in the order in which they were found.

    Args:
        errors: Those that are known already.
        name: The whole that the keys are in, for messages.

    Attributes:
        notes: Keys that are valid and have no effect, with the reason.
    """

    def __init__(self, errors: Iterable[ConfigError] = (), *, name: str = "the config") -> None:
        super().__init__(errors)
        self.notes: list[str] = []
        self._name = name

    def wrong(self, path: tuple[Any, ...], message: str, hint: str | None = None) -> None:
        """Add a value that is not valid."""
        self.append(ConfigError(message, hint=hint, path=path))

    def unknown(self, path: tuple[Any, ...], known: Iterable[str], hint: str | None = None) -> None:
        """Add a key that is not one of the known keys; the hint is else the nearest of them."""
        names = sorted(known)
        where = ".".join(map(str, path[:-1])) or self._name
        guess = nearest(str(path[-1]), names)
        self.wrong(
            path,
            f"'{path[-1]}' is not a key of {where}, which may have {', '.join(names)}",
            hint or (f"did you mean '{guess}'?" if guess else None),
        )

    @contextmanager
    def collecting(self, path: tuple[Any, ...]) -> Iterator[None]:
        """Add the error that the check of a value raises."""
        try:
            yield
        except (UsageError, BackendNotFoundError) as err:
            self.wrong(path, str(err), err.hint)

    def with_places(self, config: Mapping[str, Any]) -> Problems:
        """The same problems, their messages beginning with the place; by file, from the top.

        Args:
            config: The config; a mapping without places leaves the problems as they are.
        """
        if not isinstance(config, Table):
            return self
        placed = [(config.find(problem.path), problem) for problem in self]
        placed.sort(key=lambda pair: (pair[0] or Place(""))[:3])  # keys stay in their order
        return Problems(
            ConfigError(f"{place}: {err}" if place else str(err), hint=err.hint, path=err.path)
            for place, err in placed
        )

    def raise_first(self) -> None:
        """Raise the first problem, if there is any.

        Raises:
            ConfigError: There is one.
        """
        if self:
            more = f" (and {len(self) - 1} more problems)" if len(self) > 1 else ""
            first = self[0]
            raise ConfigError(f"{first}{more}", hint=first.hint, path=first.path)
