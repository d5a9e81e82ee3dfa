"""A full disk while an IR is written is an error, and does not end the process."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

#: Files are limited to 100 kB, and the weights are larger.
_EXPORT = """
import resource, sys, torch, enginebay as eb
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    options = eb.ExportOptions(ir=sys.argv[1])
    eb.export(torch.nn.Linear(200, 200), torch.ones(1, 200), path=sys.argv[2], options=options)
except eb.EnginebayError as err:
    print(err)
"""


@pytest.mark.parametrize("ir", ["torchscript", "exported_program"])
def test_full_disk_is_an_error_and_leaves_no_file(tmp_path, ir: str) -> None:
    target = tmp_path / "m"
    command = [sys.executable, "-W", "ignore", "-c", _EXPORT, ir, str(target)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    assert re.fullmatch(r"cannot write '.*/m\.pt2?': File too large\n", completed.stdout)
    assert not list(tmp_path.iterdir())
