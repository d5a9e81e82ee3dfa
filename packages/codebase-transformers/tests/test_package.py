"""The package itself."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.process
def test_import_of_the_package_imports_neither_torch_nor_transformers() -> None:
    code = "import enginebay_transformers, sys; print({'torch', 'transformers'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
