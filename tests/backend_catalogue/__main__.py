"""``python -m tests.backend_catalogue NAME``: store the reports of the session, write the page."""

from __future__ import annotations

import sys

from .catalogue import KEPT, MADE, PAGE, entries, load, made, published, render, save


def main() -> None:
    """Replace the stored reports of the named backends: tested here, or published by them."""
    wanted = entries()
    kept = {name: each for name, each in load(KEPT).items() if name in wanted}
    found = {
        name: row
        for name in sys.argv[1:]
        if (row := made(MADE / f"{name}.json") or published(wanted[name]))
    }
    save(kept | found, KEPT)
    PAGE.write_text(render(wanted, kept | found), encoding="utf-8")
    print(f"{', '.join(found) or 'nothing'} is new in {PAGE}")


if __name__ == "__main__":
    main()
