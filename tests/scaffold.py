"""``python -m tests.scaffold``: test a new backend as ``new-backend`` writes it, from its wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

#: Of the kit, which lies in an environment in this repository, and must not meet its conftest.py.
KIT = ("--noconftest", "--pyargs", "enginebay.testing", "--backend", "frobnicator")


def main() -> None:
    """Write the package, install it, and run its own tests and a part of the kit."""
    reports = str(Path("build", "conformance").resolve())
    with TemporaryDirectory() as folder:
        package = Path(folder, "enginebay-frobnicator")
        _run("pip", "uninstall", "-q", "-y", "enginebay-frobnicator", folder=folder)
        _run("enginebay", "new-backend", "frobnicator", folder=folder)
        _run("pip", "install", "-q", "--no-deps", str(package), folder=folder)
        pytest = ("pytest", "-c", "pyproject.toml", "-W", "error")
        _run(*pytest, "--conformance-report", reports, folder=package)
        _run(*pytest, *KIT, "-k", "installed or numbers or scalars", folder=package)


def _run(*command: str, folder: str | Path) -> None:
    subprocess.run([sys.executable, "-m", *command], cwd=folder, check=True)


if __name__ == "__main__":
    main()
