"""Record ``docs/assets/terminal.svg``: a command that runs in a terminal, as one animated picture.

    pip install pyte && python docs/build/record_terminal.py COMMAND...

The picture begins with its last frame, and is that frame where nothing may move. Waits are
shortened: all of it takes 15 seconds.
"""

from __future__ import annotations

import codecs
import os
import pty
import shlex
import sys
import time
from html import escape
from itertools import groupby, pairwise
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

import pyte

if TYPE_CHECKING:
    from collections.abc import Iterator

PICTURE = Path(__file__).parents[1] / "assets" / "terminal.svg"
COLUMNS, ROWS = 88, 14
WIDTH, HEIGHT = 8, 18  # of a character, in pixels
SECONDS, STILL = 15.0, 3.0  # the whole, and how much of it the last frame has at each end
COLOURS = {"green": "#7ee787", "red": "#ff7b72", "brown": "#e3b341", "cyan": "#79c0ff"}


class Frame(NamedTuple):
    """The screen from one time on, in seconds."""

    start: float
    rows: tuple[str, ...]  # as SVG


def main(command: list[str]) -> None:
    """Run the command, and write the picture."""
    os.environ["TERM"] = "xterm-256color"
    frames = shortened(recorded(command))
    PICTURE.write_text(svg(frames), encoding="utf-8")


def recorded(command: list[str]) -> list[Frame]:
    """Every screen that differs from the one before; the command is typed first."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    typed = " \\\r\n    ".join(wrap(shlex.join(command), COLUMNS - 6))
    frames = []
    for number, character in enumerate(f"$ {typed}"):
        stream.feed(character)
        frames.append(Frame(number / 40, drawn(screen)))
    stream.feed("\r\n")
    begin = time.monotonic() - frames[-1].start

    def read(terminal: int) -> bytes:
        data = os.read(terminal, 65536)
        stream.feed(decode(data))
        if (rows := drawn(screen)) != frames[-1].rows:
            frames.append(Frame(time.monotonic() - begin, rows))
        return data

    sized = f"stty cols {COLUMNS} rows {ROWS}; exec {shlex.join(command)}"
    if pty.spawn(["sh", "-c", sized], read):
        sys.exit("the command failed")
    return frames


def drawn(screen: pyte.Screen) -> tuple[str, ...]:
    """The rows of the screen as SVG, without the place that they have."""
    return tuple(row(screen.buffer[y][x] for x in range(COLUMNS)) for y in range(ROWS))


def row(characters: Iterator[pyte.screens.Char]) -> str:
    """One row: a text for each run of characters that look alike."""
    runs, x = [], 0
    for (colour, bold), group in groupby(characters, lambda each: (each.fg, each.bold)):
        text = "".join(each.data for each in group)
        if text.strip():
            style = f' fill="{COLOURS[colour]}"' if colour in COLOURS else ""
            style += ' font-weight="bold"' if bold else ""
            place = f'x="{x * WIDTH}" textLength="{len(text) * WIDTH}"'
            runs.append(f"<text {place}{style}>{escape(text)}</text>")
        x += len(text)
    return "".join(runs)


def shortened(frames: list[Frame]) -> list[Frame]:
    """The same frames, with no wait longer than a second, between the last frame's two times."""
    waits = [min(b.start - a.start, 1.0) for a, b in pairwise(frames)]
    factor = min(1.0, (SECONDS - 2 * STILL) / sum(waits))
    ends = [STILL]
    for wait in waits:
        ends.append(ends[-1] + wait * factor)
    return [Frame(end, frame.rows) for end, frame in zip(ends, frames, strict=True)]


def svg(frames: list[Frame]) -> str:
    """One picture: each different row is drawn once, and the frames are rolled past a window."""
    names: dict[str, str] = {}
    strip, steps = [], ["0%{transform:none}"]
    high = ROWS * HEIGHT
    for number, frame in enumerate([frames[-1], *frames[:-1]]):
        for y, each in enumerate(frame.rows):
            if each:
                name = names.setdefault(each, f"r{len(names)}")
                strip.append(f'<use href="#{name}" y="{number * high + y * HEIGHT}"/>')
        if number:
            steps.append(f"{frame.start / SECONDS:.3%}{{transform:translateY(-{number * high}px)}}")
    steps.append(f"{frames[-1].start / SECONDS:.3%},100%{{transform:none}}")
    rows = "".join(f'<g id="{name}">{each}</g>' for each, name in names.items())
    wide = COLUMNS * WIDTH
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide + 32} {high + 32}">\n'
        "<style>\n"
        "svg { font: 13px ui-monospace, 'DejaVu Sans Mono', monospace; fill: #d1d7e0 }\n"
        "text { white-space: pre; dominant-baseline: text-before-edge }\n"
        f"@keyframes roll {{ {' '.join(steps)} }}\n"
        f".roll {{ animation: roll {SECONDS}s step-end infinite }}\n"
        "@media (prefers-reduced-motion: reduce) { .roll { animation: none } }\n"
        "</style>\n"
        '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n'
        f"<defs>{rows}</defs>\n"
        f'<svg x="16" y="16" width="{wide}" height="{high}"><g class="roll">{"".join(strip)}'
        "</g></svg>\n</svg>\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
