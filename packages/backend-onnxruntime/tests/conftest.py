"""Shared fixtures: models written as text, and loaded as users load them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a model in ONNX's text format, without its header, to a file.

    ``write("(float[n] x) => (float[n] y) { y = Relu(x) }")``
    """
    import onnx

    def write(text: str, name: str = "model.onnx", *, imports: str = '"": 21') -> Path:
        header = f"<ir_version: 10, opset_import: [{imports}]> graph "
        path = tmp_path / name
        onnx.save(onnx.parser.parse_model(header + text), path)
        return path

    return write


@pytest.fixture
def load(write: Callable[..., Path], tmp_path: Path) -> Iterator[Callable[..., eb.Wrapper]]:
    """Convert a model in ONNX's text format, and load the artifact."""
    wrappers: list[eb.Wrapper] = []
    numbers = count()

    def load(text: str, *, strict: bool = False, imports: str = '"": 21', **params: Any) -> Any:
        number = next(numbers)
        model = write(text, f"model_{number}.onnx", imports=imports)
        folder = tmp_path / f"artifact_{number}"
        eb.convert(model, backend="onnxruntime", work_dir=folder, params=params)
        wrappers.append(eb.load(folder, strict=strict))
        return wrappers[-1]

    yield load
    for wrapper in wrappers:
        wrapper.close()


@pytest.fixture
def backend() -> eb.Backend:
    """The backend as callers of core hold it."""
    return eb.get_backend("onnxruntime")
