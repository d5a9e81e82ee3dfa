"""The conformance tests on one provider, in pytest's own process."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec

from enginebay_testing.conformance.report import Report

if TYPE_CHECKING:
    from pathlib import Path

#: Further parameters of a provider: Qualcomm's takes no open dimensions.
_PARAMS = {"onnxruntime_qnn": ("sizes=*=2",)}
#: Seconds: about 400 deployments, each in a few seconds.
_TIMEOUT = 3600


def run_kit(module: str, folder: Path) -> Report:
    """Return the report of the conformance tests and of the networks of one operator.

    Args:
        module: The module of the provider's package.
        folder: The folder of the report; one from an earlier call is not made again.
    """
    file = folder / "onnxruntime-with-params.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Not the configuration of this repository.
        (folder / "pytest.ini").write_text("[pytest]\ntimeout = 300\n")
        params = [f"--params={word}" for word in (f"providers={module}", *_PARAMS.get(module, ()))]
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-p", "enginebay_testing", "-n", "2", "-q"),
                *("--backend", "onnxruntime", *params, "--operators"),
                *("--conformance-report", ".", "-p", "no:cacheprovider", "-c", "pytest.ini"),
            ],
            cwd=folder,
            timeout=_TIMEOUT,
            check=False,  # a broken law is a result
        )
    return msgspec.json.decode(file.read_bytes(), type=Report)
