"""Train a small network on handwritten digits, deploy it, and measure each engine's accuracy.

    python examples/digits/digits.py [--backend NAME] [--work-dir FOLDER]

The 1797 digits come with scikit-learn; a fifth of them is held out. int8 is calibrated with 200
training images.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

import enginebay as eb


class DigitNet(nn.Module):
    """Two convolutions and a classifier for N×1×8×8 float32 images with values from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
        )
        self.classifier = nn.Linear(32 * 4, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return ten logits for each image."""
        return self.classifier(self.features(image).flatten(1))


def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return training images, held-out images, training labels and held-out labels."""
    bunch = load_digits()
    # scikit-learn's pixels are integers from 0 to 16.
    images = torch.tensor(bunch.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(bunch.target)
    # Stratified: both parts have the same share of each digit.
    train, test = train_test_split(
        torch.arange(len(labels)), test_size=0.2, random_state=0, stratify=labels
    )
    return images[train], images[test], labels[train], labels[test]


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int = 30) -> None:
    """Train a model with Adam on shuffled batches of 64."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()


def trained() -> tuple[DigitNet, torch.Tensor]:
    """Return the trained network and an example input, for ``digits.py:trained`` in commands."""
    torch.manual_seed(0)  # the same weights in each run
    images, _, labels, _ = digits()
    model = DigitNet()
    train(model, images, labels)
    return model.eval(), images[:1]


def calibration() -> list[dict[str, torch.Tensor]]:
    """Return the training images as a data set, for ``digits.py:calibration`` in commands."""
    return [{"image": image[None]} for image in digits()[0]]


def held_out() -> list[dict[str, torch.Tensor]]:
    """Return the held-out images and labels as a data set, for ``digits.py:held_out``."""
    _, images, _, labels = digits()
    return [
        {"image": image[None], "target": label[None]}
        for image, label in zip(images, labels, strict=True)
    ]


def accuracy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of images whose largest logit is that of their label."""
    return (logits.argmax(1) == labels).float().mean().item()


def list_backends() -> list[str]:
    """Return ONNX Runtime, and OpenVINO if it is installed with NNCF, which int8 requires."""
    has_openvino = find_spec("enginebay_openvino") and find_spec("nncf")
    return ["onnxruntime", *(["openvino"] if has_openvino else [])]


def deploy(
    model: nn.Module,
    example: torch.Tensor,
    backend: str,
    precision: str,
    folder: Path,
    data: eb.DataSet | None,
) -> eb.Deployment:
    """Deploy for all batch sizes up to the size of the example; the data calibrates int8."""
    return eb.deploy(
        model,
        example[:1],
        backend=backend,
        precision=precision,
        work_dir=folder / f"{backend}-{precision}",
        dynamic={"image": {0: ("batch", 1, len(example))}},
        data=data,
        overwrite=True,  # the example may run again
    )


def main(argv: list[str] | None = None) -> int:
    """Train the network, deploy it in fp32 and int8, and print a line for each engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", help="by default ONNX Runtime, and OpenVINO with NNCF")
    parser.add_argument("--work-dir", type=Path, default=Path("digits-artifacts"))
    args = parser.parse_args(argv)

    _, test_images, _, test_labels = digits()
    model, _ = trained()
    with torch.no_grad():
        expected = accuracy(model(test_images), test_labels)
    images = eb.DataSet(calibration, take=200)

    print("engine       precision  PyTorch  artifact    drop      size  verdict")
    for backend in [args.backend] if args.backend else list_backends():
        for precision, data in (("fp32", None), ("int8", images)):
            deployed = deploy(model, test_images, backend, precision, args.work_dir, data)
            artifact = deployed.artifact
            with eb.load(artifact) as wrapper:
                found = accuracy(wrapper({"image": test_images})["output"], test_labels)
            size = sum((artifact.path / file).stat().st_size for file in artifact.files)
            print(
                f"{backend:<12} {precision:<9} {expected:8.2%} {found:9.2%} {expected - found:7.2%}"
                f" {size / 1000:6.1f} kB  {deployed.verdict}"
            )
    print(f"{len(test_labels)} digits held out; the artifacts are in {args.work_dir}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
