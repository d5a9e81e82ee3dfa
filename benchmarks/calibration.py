"""A conversion to int8 against the bare quantiser with the same settings and items."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

import enginebay as eb
from benchmarks.table import Row
from benchmarks.turns import paired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ITEMS = 100
TURNS = 5
SHAPE = (1, 3, 64, 64)


def run() -> Iterator[Row]:
    """Measure ten convolutions on ONNX Runtime and OpenVINO, calibrated with 100 images."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU()]
    for _ in range(9):
        layers += [nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()]
    images = np.random.default_rng(0).random((ITEMS, *SHAPE), np.float32)
    with TemporaryDirectory(prefix="enginebay-benchmark-") as name:
        folder = Path(name)
        np.savez(folder / "images.npz", x=images)
        model = nn.Sequential(*layers).eval()
        path = folder / "model.onnx"
        eb.export(model, torch.zeros(SHAPE), path=path, options=eb.ExportOptions(input_names=["x"]))
        for backend, bare in (("onnxruntime", _onnxruntime), ("openvino", _openvino)):
            pairs = [
                (_image(_ours, backend, folder), _image(bare, backend, folder))
                for _ in range(1 + TURNS)
            ]
            found = paired(pairs[1:])
            yield Row.of("calibration", f"{backend}, an image", "its quantiser", found, "ms", 1.1)


def _image(function: Callable[[str, Path], None], backend: str, folder: Path) -> float:
    """Return the seconds per item."""
    start = time.perf_counter()
    function(backend, folder)
    return (time.perf_counter() - start) / ITEMS


def _ours(backend: str, folder: Path) -> None:
    eb.convert(
        folder / "model.onnx",
        backend=backend,
        work_dir=folder / backend,
        params={"precision": "int8"},
        data=folder / "images.npz",
        overwrite=True,
    )


def _onnxruntime(_backend: str, folder: Path) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
        def __init__(self) -> None:
            with np.load(folder / "images.npz") as file:
                self.rest = iter(file["x"])

        def get_next(self) -> dict[str, np.ndarray] | None:
            image = next(self.rest, None)
            return None if image is None else {"x": image}

    simplified = folder / "simplified.onnx"
    quant_pre_process(folder / "model.onnx", simplified, skip_symbolic_shape=True)
    quantize_static(
        simplified,
        folder / "bare.onnx",
        Reader(),
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )


def _openvino(_backend: str, folder: Path) -> None:
    import nncf
    import openvino as ov
    from nncf.quantization.advanced_parameters import AdvancedQuantizationParameters
    from nncf.quantization.range_estimator import RangeEstimatorParametersSet

    with np.load(folder / "images.npz") as file:
        images = list(file["x"])
    model = ov.Core().read_model(folder / "model.onnx")
    quantised = nncf.quantize(
        model,
        nncf.Dataset(images),
        subset_size=ITEMS,
        preset=nncf.QuantizationPreset.MIXED,
        advanced_parameters=AdvancedQuantizationParameters(
            activations_range_estimator_params=RangeEstimatorParametersSet.MINMAX,
            disable_bias_correction=True,
        ),
    )
    ov.save_model(quantised, folder / "bare.xml", compress_to_fp16=False)
