"""What a child has printed: handed on line by line, and kept within bounds."""

from __future__ import annotations

import codecs
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Characters kept from the start, and again from the end, of what a child prints. A converter
#: that dumps a weight tensor must not take the parent's memory with it.
KEPT = 256 * 1024


class Log:
    r"""Text that arrives in pieces of bytes.

    Bytes that are not UTF-8 become ``�``; ``\r\n`` and the ``\r`` of progress bars become ``\n``.

    Args:
        on_line: Called with every line as it is complete, without its line end.

    Example:
        >>> log = Log(print)
        >>> log.feed(b"one\ntw"), log.feed(b"o", final=True)
        one
        two
        (None, None)
        >>> log.text()
        'one\ntwo'
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._decoder = io.IncrementalNewlineDecoder(utf8, translate=True)
        self._head = self._tail = self._line = ""
        self._left_out = 0

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Take the next bytes; ``final`` says that no more will come."""
        text = self._decoder.decode(data, final)
        self._keep(text)
        *lines, self._line = (self._line + text).split("\n")
        if self._line and (final or len(self._line) > KEPT):
            lines.append(self._line)
            self._line = ""
        for line in lines:
            self._on_line(line)

    def mute(self) -> None:
        """Hand on no more lines; go on keeping them."""
        self._on_line = lambda _: None

    def text(self) -> str:
        """All of it, or its start and end with a note of how much is missing between them."""
        if not self._left_out:
            return self._head + self._tail
        return f"{self._head}\n[… {self._left_out} characters left out …]\n{self._tail}"

    def _keep(self, text: str) -> None:
        room = KEPT - len(self._head)
        self._head += text[:room]
        self._tail += text[room:]
        surplus = max(0, len(self._tail) - KEPT)
        self._tail = self._tail[surplus:]
        self._left_out += surplus
