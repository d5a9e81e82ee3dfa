"""``python -m tests.scaffold``: test new packages of third parties, installed from wheels.

Two are backends by ``new-backend``; the third has the command of the docs and a metric.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

#: Arguments for the kit, whose environment is inside this repository: skip its conftest.py.
KIT = ("--noconftest", "--backend", "frobnicator")

PACKAGES = ("enginebay-frobnicator", "enginebay-compilator", "my-package")

DOCS = Path(__file__).parents[1] / "docs"

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "my-package"
version = "1.0"
dependencies = ["enginebay"]

[project.entry-points."enginebay.commands"]
largest-files = "my_package.largest_files"

[project.entry-points."enginebay.plugins"]
my-package = "my_package.plugin"
"""

PLUGIN = '''
"""The plugin: one metric."""

import enginebay as eb


class Count:
    """The number of items."""

    def reset(self):
        self.count = 0

    def update(self, outputs, target):
        self.count += 1

    def compute(self):
        return float(self.count)


@eb.hookimpl
def metrics():
    return {"count": lambda request: Count()}
'''

TESTS = """
import numpy as np
import pytest
from enginebay_testing import CommandConformance


class TestLargestFiles(CommandConformance):
    @pytest.fixture
    def command(self):
        return "largest-files"
"""


def main() -> None:
    """Write the packages, install them, and run their own tests and a part of the kit."""
    reports = str(Path("build", "conformance").resolve())
    with TemporaryDirectory() as folder:
        package = Path(folder, "enginebay-frobnicator")
        _run("pip", "uninstall", "-q", "-y", *PACKAGES, folder=folder)
        _run("enginebay", "new-backend", "frobnicator", folder=folder)
        _run("pip", "install", "-q", "--no-deps", str(package), folder=folder)
        pytest = ("pytest", "-c", "pyproject.toml", "-W", "error")
        _run(*pytest, "--conformance-report", reports, folder=package)
        _run(*pytest, *KIT, "-k", "installed or numbers or scalars", folder=package)
        _run("enginebay", "new-backend", "compilator", "--compiler", folder=folder)
        compiler = Path(folder, "enginebay-compilator")
        _run("pip", "install", "-q", "--no-deps", str(compiler), folder=folder)
        _run(*pytest, folder=compiler)
        _run("pip", "uninstall", "-q", "-y", "enginebay-compilator", folder=folder)
        tool = _write_tool(Path(folder, "my-package"))
        _run("pip", "install", "-q", "--no-deps", str(tool), folder=folder)
        _run(*pytest, folder=tool)
        _try_tool(folder)


def _write_tool(package: Path) -> Path:
    """Write a package with the command of the docs and a metric."""
    source = (DOCS / "how-to" / "write-a-command.md").read_text(encoding="utf-8")
    begin = "```python file=my_package/largest_files.py\n"
    (block,) = re.findall(rf"{begin}(.*?)```", source, re.DOTALL)
    files = {
        "pyproject.toml": PYPROJECT,
        "src/my_package/__init__.py": "",
        "src/my_package/largest_files.py": block,
        "src/my_package/plugin.py": PLUGIN.lstrip(),
        "tests/test_command.py": TESTS.lstrip(),
    }
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return package


def _try_tool(folder: str) -> None:
    """Use the command and the metric on an artifact of the new backend."""
    model = "import torch\ndef build():\n    return torch.nn.Linear(2, 3), torch.ones(1, 2)\n"
    Path(folder, "net.py").write_text(model, encoding="utf-8")
    np.savez(Path(folder, "items.npz"), input=np.ones((5, 1, 2), "f4"), target=np.ones(5))
    _run("enginebay", "deploy", "net.py:build", "--work-dir", "net", folder=folder)
    _run("enginebay", "largest-files", "net", "--count", "2", folder=folder)
    words = ("evaluate", "net", "--data", "items.npz", "--metric", "count:items")
    _run("enginebay", *words, folder=folder)


def _run(*command: str, folder: str | Path) -> None:
    subprocess.run([sys.executable, "-m", *command], cwd=folder, check=True)


if __name__ == "__main__":
    main()
