"""Costs and gains of int8 by engine and network: ``python -m benchmarks.int8 [NETWORK …]``.

Eleven small networks from timm, mostly of different families, learn scikit-learn's digits, enlarged
to 32×32, in some minutes. Each is deployed in fp32 and in int8, in which some layers may stay in
floating point; KEPT is their number. Accuracy is that of the digits held out from the training.
Exit code 1 if int8 is not verified or loses more than 1 %.
"""

from __future__ import annotations

import statistics
import sys
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits

import enginebay as eb
import enginebay_lab as lab

if TYPE_CHECKING:
    from torch import Tensor, nn

#: Epochs and arguments by timm's name; the smallest networks of their families.
NETWORKS: dict[str, tuple[int, dict[str, Any]]] = {
    "resnet10t": (4, {}),
    "mobilenetv2_050": (16, {}),
    "mobilenetv3_small_050": (10, {}),
    "mnasnet_small": (30, {}),
    "test_efficientnet": (8, {}),
    "regnetx_002": (10, {}),
    "densenet121": (3, {"block_config": (2, 4, 6, 4)}),
    "test_convnext": (8, {}),
    "test_vit": (40, {"img_size": 32, "patch_size": 8}),
    "mobilevit_xxs": (5, {}),
    "poolformer_s12": (4, {"layers": (1, 1, 2, 1), "embed_dims": (32, 64, 160, 256)}),
}
#: The parameter for threads by engine: with one thread, other processes disturb less.
ENGINES = {"onnxruntime": "intra_op_threads", "openvino": "threads", "ncnn": "threads"}
HELD_OUT = 360
CALIBRATED_WITH = 100
LIMIT = 0.01
HEAD = (
    "engine       network                verdict        dB    fp32    int8    drop"
    "            MB        calls/s  KEPT"
)


class Measured(NamedTuple):
    """An artifact: its verdict, accuracy, bytes and calls per second.

    Attributes:
        kept: Nodes that stay in floating point.
    """

    verification: eb.Verification
    accuracy: float
    size: int
    rate: float
    kept: int


def main(names: list[str]) -> int:
    """Train, deploy and print a row for each network on each engine."""
    images, labels = digits()
    missed = 0
    print(HEAD)
    for name in names or NETWORKS:
        model = trained(name, images[HELD_OUT:], labels[HELD_OUT:])
        for engine in ENGINES:
            full, coarse = (measured(model, images, labels, engine, p) for p in ("fp32", "int8"))
            drop = full.accuracy - coarse.accuracy
            missed += coarse.verification.verdict != "verified" or drop > LIMIT
            print(row(engine, name, full, coarse), flush=True)
    return 1 if missed else 0


def digits() -> tuple[Tensor, Tensor]:
    """1797×1×32×32 float32 images from 0 to 1 in a random order, and their labels."""
    bunch = load_digits()
    order = torch.randperm(len(bunch.target), generator=torch.Generator().manual_seed(0))
    images = (bunch.images / 16).astype(np.float32).repeat(4, 1).repeat(4, 2)[:, None]
    return torch.from_numpy(images)[order], torch.from_numpy(bunch.target)[order]


def trained(name: str, images: Tensor, labels: Tensor) -> nn.Module:
    """Build timm's network and train it on batches of 64 with one cycle of the learning rate."""
    import_module("tests.torchvision_shim").import_torchvision()  # which timm imports
    timm = import_module("timm")
    torch.manual_seed(0)
    epochs, arguments = NETWORKS[name]
    model: nn.Module = timm.create_model(name, in_chans=1, num_classes=10, **arguments).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    batches = len(images) // 64
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, epochs * batches)
    for _ in range(epochs):
        for batch in torch.randperm(len(images))[: 64 * batches].reshape(batches, 64):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()  # type: ignore[no-untyped-call]  # torch does not annotate it
            optimizer.step()
            schedule.step()
    return model.eval()


def measured(
    model: nn.Module, images: Tensor, labels: Tensor, engine: str, precision: str
) -> Measured:
    """Deploy for one image per call, and run the digits that were held out."""
    learned = zip(images[HELD_OUT:].numpy()[:, None], labels[HELD_OUT:].tolist(), strict=True)
    gate: dict[str, Any] = {}
    if precision == "int8":
        gate = {"data": eb.DataSet(list(learned), take=CALIBRATED_WITH)}
        gate |= {"metric": "accuracy", "max_drop": LIMIT}
    with TemporaryDirectory(prefix="enginebay-int8-") as folder:
        options: dict[str, Any] = {
            "export": {"input_names": ["x"]},
            "backend": engine,
            "params": {"precision": precision, ENGINES[engine]: 1},
            "work_dir": Path(folder) / "artifact",
            "verify": {"allow_mismatch": True},
        }
        if gate:
            done = lab.quantize(model, images[:1], **options, **gate).deployment
        else:
            done = eb.deploy(model, images[:1], **options)
        files = [done.artifact.path / file for file in done.artifact.files]
        size = sum(file.stat().st_size for file in files)
        right, seconds = 0, []
        with eb.load(done.artifact) as wrapper:
            for image, label in zip(images[:HELD_OUT].numpy(), labels, strict=False):
                start = time.perf_counter()
                (logits,) = wrapper({"x": image[None]}).values()
                seconds.append(time.perf_counter() - start)
                right += int(logits.argmax() == int(label))
    rate = 1 / statistics.quantiles(seconds, n=10)[0]  # other processes only add time
    kept = len(done.artifact.manifest.kept)
    return Measured(done.verification, right / HELD_OUT, size, rate, kept)


def row(engine: str, name: str, full: Measured, coarse: Measured) -> str:
    """Return a line of the table: int8 compared with fp32."""
    levels = [signal.decibels for signal in coarse.verification.signals]
    lowest = min((level for level in levels if level is not None), default=float("inf"))
    size = f"{full.size / 1e6:.2f} → {coarse.size / 1e6:.2f}"
    rate = f"{full.rate:.0f} → {coarse.rate:.0f}"
    return (
        f"{engine:<12} {name:<22} {coarse.verification.verdict:<11} {lowest:5.1f} "
        f"{full.accuracy:7.2%} {coarse.accuracy:7.2%} {full.accuracy - coarse.accuracy:7.2%} "
        f"{size:>13} {rate:>14} {coarse.kept:>5}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
