"""The collection of models of other packages: columns, results and page."""

from __future__ import annotations

import re
from pathlib import Path

from tests.zoo.results import Collection

from .models import MODELS, build
from .page import COLUMNS, FIRST, LIMIT, render

HERE = Path(__file__).parent
#: The packages that the session installs: those of the models, then their requirements.
REQUIREMENTS = (HERE / "requirements.txt").read_text(encoding="utf-8")
PACKAGES = re.findall(r"^([\w.-]+)==", REQUIREMENTS.partition("# What these")[0], re.MULTILINE)

COLLECTION = Collection(
    models=MODELS,
    build=build,
    columns=COLUMNS,
    limit=LIMIT,
    results=HERE / "results.json",
    page=Path(__file__).parents[2] / "docs" / "evidence" / "community-models.md",
    distributions=("torch", "onnx", "onnxruntime", "openvino", "ncnn", "pnnx", *PACKAGES),
    render=render,
    first=FIRST,
)
