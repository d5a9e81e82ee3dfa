"""A deployment by hand, without Enginebay: ``python -m benchmarks.by_hand MODEL FOLDER``.

The model's forward, its export, a session, and the same inputs through it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from benchmarks import models


def main(name: str, folder: str) -> None:
    """Export a model of :mod:`benchmarks.models` and compare."""
    model, x = getattr(models, name)()
    model.eval()
    with torch.no_grad():
        expected = model(x)
    path = Path(folder) / "model.onnx"
    torch.onnx.export(model, (x,), path, input_names=["x"], output_names=["y"], dynamo=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(["y"], {"x": x.numpy()})
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    main(*sys.argv[1:])
