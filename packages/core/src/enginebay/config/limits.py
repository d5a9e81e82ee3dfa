"""How much work one config may cause: whoever writes it must not be able to take the machine.

The figures are a hundred times what the largest deploy configs in the wild need. They hold for a
file together with everything that it inherits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.config.places import Table, wrong

if TYPE_CHECKING:
    from enginebay.config.places import Place

FILES = 100
INHERITANCE = 20  # files in a row, each the base of the one before
FILE_BYTES = 256 * 1024
TOTAL_BYTES = 1024 * 1024
NODES = 200_000  # values that are read, made or copied
CHARACTERS = 4 * 1024 * 1024  # in texts that are put together
DEPTH = 50  # of values in values
INT_BITS = 1024


class Budget:
    """What is left of the work that one config may cause."""

    def __init__(self) -> None:
        self._files = FILES
        self._bytes = TOTAL_BYTES
        self._nodes = NODES
        self._characters = CHARACTERS

    def file(self, size: int, place: Place | None) -> None:
        """Account for one more file of so many bytes.

        Raises:
            ConfigError: There are too many of them, or they are too large.
        """
        self._files -= 1
        self._bytes -= size
        if self._files < 0:
            raise wrong(place, f"the config inherits from more than {FILES} files")
        if self._bytes < 0:
            raise wrong(place, f"the config's files hold more than {TOTAL_BYTES} bytes together")

    def affords(self, count: int) -> bool:
        """Account for so many more values; False where there are too many of them."""
        self._nodes -= count
        return self._nodes >= 0

    def nodes(self, count: int, place: Place | None) -> None:
        """Account for so many more values.

        Raises:
            ConfigError: There are too many of them.
        """
        if not self.affords(count):
            raise wrong(place, f"the config makes more than {NODES} values")

    def characters(self, count: int, place: Place | None) -> None:
        """Account for a text of so many characters.

        Raises:
            ConfigError: The texts are too long.
        """
        self._characters -= count
        if self._characters < 0:
            raise wrong(place, f"the config makes texts of more than {CHARACTERS} characters")

    def value(self, value: Any, place: Place | None, depth: int = 0) -> None:
        """Account for a value with all that it holds, each time that it is held.

        Raises:
            ConfigError: It holds too much, too deep, or something that no config may hold.
        """
        self.nodes(1, place)
        if depth > DEPTH:
            raise wrong(place, f"values are nested more than {DEPTH} deep")
        if isinstance(value, str):
            self._text(value, place)
        elif isinstance(value, dict):
            places = value.places if isinstance(value, Table) else {}
            for key, item in value.items():
                where = places.get(key, place)
                self._key(key, where)
                self.value(item, where, depth + 1)
        elif isinstance(value, list | tuple):
            for item in value:
                self.value(item, place, depth + 1)
        elif isinstance(value, range):
            self.nodes(len(value), place)
        elif isinstance(value, int):
            self.integer(value, place)
        elif not isinstance(value, float | None):
            raise wrong(place, f"a config cannot hold a {type(value).__name__}")

    def integer(self, value: int, place: Place | None) -> None:
        """Check the size of an integer.

        Raises:
            ConfigError: It is too large.
        """
        if value.bit_length() > INT_BITS:
            raise wrong(place, f"an integer has more than {INT_BITS} bits")

    def _key(self, key: Any, place: Place | None) -> None:
        if isinstance(key, str):
            self._text(key, place)
        else:
            self.value(key, place, DEPTH)

    def _text(self, text: str, place: Place | None) -> None:
        self.characters(len(text), place)
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise wrong(place, "a text holds half of a surrogate pair")
