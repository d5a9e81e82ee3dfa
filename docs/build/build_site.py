"""Build the site, strictly: a docstring that does not parse and a page that fetches are errors."""

from __future__ import annotations

import re
import subprocess
import sys

from write_pages import ROOT, write_pages

_FETCHING = re.compile(r"""<(?:script|link|img)[^>]+(?:src|href)="?https?:""")


def main() -> None:
    """Write the pages and build the site from them."""
    write_pages()
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(built.stdout)
    if built.returncode or "griffe:" in built.stdout:  # whose warnings are none for --strict
        sys.exit(built.returncode or "a docstring does not parse")
    for page in (ROOT / "build" / "site").rglob("*.html"):
        if fetched := _FETCHING.search(page.read_text(encoding="utf-8")):
            sys.exit(f"{page}: {fetched[0]} is fetched from the network")


if __name__ == "__main__":
    main()
