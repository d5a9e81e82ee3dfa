"""A disk that fills up during a conversion is the error it is elsewhere, and leaves nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

import enginebay as eb

_CONVERT = """
import os, resource, sys, enginebay as eb
_, ir, target, limit = sys.argv
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
try:
    eb.convert(ir, backend="ncnn", work_dir=target)
except eb.EnginebayError as err:
    print(err)
print(os.listdir(os.path.dirname(target)))
"""

#: Mounts a disk of 400 kB, seen by one process alone, and runs a command there.
_DISK = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
_MOUNT = 'mount -t tmpfs -o size=400k tmpfs "$1" || exit 77; shift; exec "$@"'


@pytest.fixture
def command(tmp_path) -> list[str]:
    """Converts a network with 160 kB of weights into the folder ``disk``."""
    linear = nn.Sequential(nn.Linear(200, 200), nn.ReLU())
    ir = eb.export(
        linear,
        torch.ones(1, 200),
        path=tmp_path / "m.pt",
        options=eb.ExportOptions(ir="torchscript"),
    )
    (tmp_path / "disk").mkdir()
    target = str(tmp_path / "disk" / "out")
    return [sys.executable, "-W", "ignore", "-c", _CONVERT, str(ir.path), target]


def test_a_file_above_the_size_limit_in_torch_is_an_error(tmp_path, command) -> None:
    expect(tmp_path, [*command, "100000"], "File too large")


@pytest.mark.slow
def test_a_full_disk_in_pnnx_is_an_error(tmp_path, command) -> None:
    try:
        expect(
            tmp_path,
            [*_DISK, _MOUNT, "sh", str(tmp_path / "disk"), *command, ""],
            "No space left on device",
        )
    except (FileNotFoundError, subprocess.CalledProcessError) as err:
        if isinstance(err, subprocess.CalledProcessError) and err.returncode not in (1, 77):
            raise
        pytest.skip("this system lets nobody but root mount a small disk")


def expect(folder, command, reason: str) -> None:
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    message = f'the artifact "{folder}/disk/out" cannot be written: {reason}'
    assert found.stdout.splitlines() == [message, "[]"]
