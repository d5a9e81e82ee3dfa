"""The command line's start against the bare interpreter's, in the environment that runs this."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.table import Row
from benchmarks.turns import compare

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.turns import Side

#: The code of pip's script, which may be in an environment that this environment shares.
COMMAND = (sys.executable, "-c", "import sys; from enginebay.cli import main; sys.exit(main())")
BARE = (sys.executable, "-c", "pass")
BACKENDS, DISTRIBUTIONS = 50, 300
TURNS = 40


def run() -> Iterator[Row]:
    """Measure ``--version``, and ``backends`` with the installed plugins and with many more."""
    with _compiled() as environment:
        yield _row("enginebay --version", ("--version",), 2.0, environment)
        yield _row("enginebay backends", ("backends",), 3.4, environment)
        with _crowd(environment) as crowded:
            _check_crowd(crowded)
            what = f"… with {BACKENDS} backends in {DISTRIBUTIONS} distributions"
            yield _row(what, ("backends",), 4.5, crowded)


@contextmanager
def _compiled() -> Iterator[dict[str, str]]:
    """Return an environment that keeps the compiled modules, as every installation by pip has them.

    With ``PYTHONDONTWRITEBYTECODE``, an editable installation would compile them at each start.
    """
    with TemporaryDirectory(prefix="enginebay-bytecode-") as folder:
        kept = {key: each for key, each in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        yield {**kept, "PYTHONPYCACHEPREFIX": folder}


def _row(what: str, arguments: Sequence[str], limit: float, environment: dict[str, str]) -> Row:
    found = compare(
        _starts((*COMMAND, *arguments), environment),
        _starts(BARE, environment),
        calls_a_turn=1,
        turns=TURNS,
    )
    return Row.of("startup", what, "python -c pass", found, "ms", limit)


def _starts(command: Sequence[str], environment: dict[str, str]) -> Side:
    """Return a side that runs a command ``n`` times and returns the seconds of one run."""

    def side(n: int) -> float:
        start = time.perf_counter()
        for _ in range(n):
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        return (time.perf_counter() - start) / n

    return side


@contextmanager
def _crowd(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """Return an environment with another site folder, full of distributions."""
    with TemporaryDirectory(prefix="enginebay-crowd-") as folder:
        for number in range(DISTRIBUTIONS):
            _install(Path(folder), number, is_backend=number < BACKENDS)
        path = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        yield {**environment, "PYTHONPATH": os.pathsep.join(path)}


def _install(site: Path, number: int, *, is_backend: bool) -> None:
    """Write a distribution as pip does: metadata, a record, and a package that must not run."""
    name = f"crowd_{number}"
    info = site / f"{name}-1.0.dist-info"
    for made in (info, site / name):
        made.mkdir()
    requirements = "".join(f"Requires-Dist: package-{i}>=1\n" for i in range(10))
    description = f"\n{'What it does, at length. ' * 200}\n"
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requirements}{description}"
    )
    (info / "RECORD").write_text("".join(f"{name}/m{i}.py,sha256=0,0\n" for i in range(50)))
    (info / "top_level.txt").write_text(f"{name}\n")
    (info / "INSTALLER").write_text("pip\n")
    group = "enginebay.backends" if is_backend else "console_scripts"
    target = f"{name}.plugin" if is_backend else f"{name}.cli:main"
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    (site / name / "__init__.py").write_text("raise SystemExit('imported by a listing')\n")
    (site / name / "plugin.py").write_text("")


def _check_crowd(environment: dict[str, str]) -> None:
    """Check that all backends are listed as usable; an import of one would end the command."""
    listed = subprocess.run(
        (*COMMAND, "backends"), env=environment, capture_output=True, text=True, check=True
    ).stdout
    found = sum("crowd_" in line and "installed" in line for line in listed.splitlines())
    if found != BACKENDS:
        raise SystemExit(f"enginebay backends lists {found} of {BACKENDS} backends:\n{listed}")
