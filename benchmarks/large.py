"""Memory of a deployment whose weights fill much of a machine.

It takes 40 GB of disk and, for the engine's own copy of the weights, 12 GB of memory.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.deploy import MODELS
from benchmarks.processes import peak_memory
from benchmarks.startup import COMMAND
from benchmarks.table import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

ENGINES = ("onnxruntime", "openvino")
MODEL = "large_decoder"


def run() -> Iterator[Row]:
    """Deploy a decoder of 9.3 GB from a file of weights on each engine."""
    with TemporaryDirectory(prefix="enginebay-benchmark-", dir="/var/tmp") as folder:
        weights = Path(folder) / "weights.safetensors"
        size = _write_weights(weights)
        for engine in ENGINES:
            work_dir = Path(folder) / engine
            ours = peak_memory((
                *COMMAND, "deploy", f"{MODELS}:{MODEL}", "--weights", str(weights),
                "--backend", engine, "--work-dir", str(work_dir), "--timeout", "3600",
            ))  # fmt: skip
            what = f"{engine}, decoder of {size / 1e9:.1f} GB: peak memory"
            yield Row("large", what, "its weights", ours, size, "MB", ours / size, 1.4)
            for file in work_dir.iterdir():  # the disk holds one artifact at a time
                file.unlink()


def _write_weights(path: Path) -> int:
    """Write random weights, scaled as those of a trained network; return their bytes."""
    import torch
    from safetensors.torch import save_file

    from benchmarks.models import large_decoder

    print("writing the weights …", file=sys.stderr)
    model, _ = large_decoder()
    with torch.no_grad():
        for name, value in model.named_parameters():
            is_scale = value.dim() == 1
            torch.nn.init.ones_(value) if is_scale else value.normal_(0, value.shape[1] ** -0.5)
            assert value.isfinite().all(), name
    save_file(model.state_dict(), path)
    return path.stat().st_size


if __name__ == "__main__":
    for row in run():
        print("  ".join(row.cells()))
