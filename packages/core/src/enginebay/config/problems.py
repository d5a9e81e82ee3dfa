"""The problems of a config, collected so that a check can show all of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from enginebay.config.locations import LocatedDict, Location
from enginebay.errors import BackendNotFoundError, ConfigError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Problems(list[ConfigError]):
    """The errors of one config, in the order of their detection.

    Args:
        errors: The errors with which the list starts.
        name: The name of the config in messages about unknown top-level keys.

    Attributes:
        notes: Sentences about valid keys that have no effect, with the reason.
    """

    def __init__(self, errors: Iterable[ConfigError] = (), *, name: str = "the config") -> None:
        super().__init__(errors)
        self.notes: list[str] = []
        self._name = name

    def wrong(self, path: tuple[str | int, ...], message: str, hint: str | None = None) -> None:
        """Add an error about an invalid value."""
        self.append(ConfigError(message, hint=hint, path=path))

    def unknown(
        self, path: tuple[str | int, ...], known: Iterable[str], hint: str | None = None
    ) -> None:
        """Add an error about an unknown key; the default hint is the most similar known key."""
        names = sorted(known)
        where = ".".join(map(str, path[:-1])) or self._name
        self.wrong(
            path,
            f"'{path[-1]}' is not a key of {where}; available: {', '.join(names)}",
            hint or did_you_mean(str(path[-1]), names),
        )

    @contextmanager
    def collecting(self, path: tuple[str | int, ...]) -> Iterator[None]:
        """In the ``with`` block, catch a usage error, and append it to this list as a ConfigError.

        Args:
            path: The keys that lead to the config value which the block reads.
        """
        try:
            yield
        except (UsageError, BackendNotFoundError) as err:
            self.wrong(path, str(err), err.hint)

    def with_places(self, config: Mapping[str, object]) -> Problems:
        """Return the problems with locations in their messages, sorted by file and line.

        Args:
            config: The config that has the problems. If the config contains no locations, the
                problems are returned unchanged.
        """
        if not isinstance(config, LocatedDict):
            return self
        located = [(config.find(problem.path), problem) for problem in self]
        # Without the keys, whose order a stable sort preserves.
        located.sort(key=lambda pair: (pair[0] or Location(""))[:3])
        return Problems(
            ConfigError(
                f"{location}: {err}" if location else str(err), hint=err.hint, path=err.path
            )
            for location, err in located
        )

    def raise_first(self) -> None:
        """Raise the first error, if there is any.

        Raises:
            ConfigError: The list is not empty.
        """
        if self:
            more = f" (and {len(self) - 1} more problems)" if len(self) > 1 else ""
            first = self[0]
            raise ConfigError(f"{first}{more}", hint=first.hint, path=first.path)
