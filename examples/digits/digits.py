"""Train a small network on handwritten digits, deploy it, and count what both get right.

    python examples/digits/digits.py [--backend NAME] [--work-dir FOLDER]

The 1797 digits come with scikit-learn; a fifth of them is held out.
"""

from __future__ import annotations

import argparse
import sys
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
        """Ten logits for each image."""
        return self.classifier(self.features(image).flatten(1))


def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Training images, held-out images, training labels, held-out labels."""
    bunch = load_digits()
    images = torch.tensor(bunch.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(bunch.target)
    train, test = train_test_split(
        torch.arange(len(labels)), test_size=0.2, random_state=0, stratify=labels
    )
    return images[train], images[test], labels[train], labels[test]


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int = 30) -> None:
    """Adam on shuffled batches of 64."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()


def accuracy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of images whose highest logit is the label's."""
    return (logits.argmax(1) == labels).float().mean().item()


def main(argv: list[str] | None = None) -> int:
    """Train, deploy, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="onnxruntime")
    parser.add_argument("--work-dir", type=Path, default=Path("digits-artifact"))
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    train_images, test_images, train_labels, test_labels = digits()
    model = DigitNet()
    train(model, train_images, train_labels)

    deployment = eb.deploy(
        model.eval(),
        test_images[:1],
        backend=args.backend,
        work_dir=args.work_dir,
        dynamic_shapes={"image": {0: ("batch", 1, len(test_images))}},
        overwrite=True,
    )
    with torch.no_grad():
        expected = model(test_images)
    with eb.load(deployment.artifact) as wrapper:
        found = wrapper({"image": test_images})["output"]

    print(f"held-out digits      {len(test_labels)}")
    print(f"accuracy, PyTorch    {accuracy(expected, test_labels):.4f}")
    print(f"accuracy, {args.backend:<10} {accuracy(found, test_labels):.4f}")
    print(f"verdict              {deployment.verification.summary()}")
    print(f"artifact             {deployment.artifact.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
