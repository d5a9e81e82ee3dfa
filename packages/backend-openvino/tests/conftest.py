"""What these tests share: models written as text, and loaded as users load them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write a model in ONNX's text format, without its header, to a file of its own.

    ``write("(float[n] x) => (float[n] y) { y = Relu(x) }")``
    """
    import onnx

    def write(text: str, *, imports: str = '"": 21') -> Path:
        header = f"<ir_version: 10, opset_import: [{imports}]> graph "
        path = tmp_path_factory.mktemp("model") / "model.onnx"
        model = onnx.parser.parse_model(header + text)
        for value in (*model.graph.input, *model.graph.output):
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.shape.SetInParent()  # float[] is a scalar here
        onnx.save(model, path)
        return path

    return write


@pytest.fixture
def load(write: Callable[..., Path], tmp_path: Path) -> Iterator[Callable[..., eb.Wrapper]]:
    """Convert a model in ONNX's text format, and load the artifact."""
    wrappers: list[eb.Wrapper] = []
    numbers = count()

    def load(text: str, *, strict: bool = False, **params: Any) -> Any:
        folder = tmp_path / f"artifact_{next(numbers)}"
        eb.convert(write(text), backend="openvino", work_dir=folder, params=params)
        wrappers.append(eb.load(folder, strict=strict))
        return wrappers[-1]

    yield load
    for wrapper in wrappers:
        wrapper.close()


@pytest.fixture
def as_model() -> Callable[[Callable[[Any], Any]], Any]:
    """Makes a model of a function of one tensor."""
    from torch import nn

    class Applied(nn.Module):
        def __init__(self, function: Callable[[Any], Any]) -> None:
            super().__init__()
            self.function = function

        def forward(self, x: Any) -> Any:
            return self.function(x)

    return Applied


@pytest.fixture
def backend() -> eb.Backend:
    """The backend as callers of core hold it."""
    return eb.get_backend("openvino")
