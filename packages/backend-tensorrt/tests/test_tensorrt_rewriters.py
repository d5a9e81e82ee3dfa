"""What TensorRT's parser refuses is not in the graph, and the numbers are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path


def exported(
    path: Path, function: Any, args: Any, *, backend: str | None, exporter: Any
) -> tuple[Any, list[Any]]:
    """The graph for a backend, and what ONNX Runtime makes of it."""

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return function(x)

    eb.export(Module(), args, path=path, backend=backend, exporter=exporter, overwrite=True)
    options = ort.SessionOptions()
    session = ort.InferenceSession(str(path), options)
    return onnx.load(path).graph, session.run(None, {session.get_inputs()[0].name: args.numpy()})


def unsorted(graph: Any) -> bool:
    """Whether a ``TopK`` has ``sorted=0``, which is refused."""
    return any(
        attribute.name == "sorted" and attribute.i == 0
        for node in graph.node
        if node.op_type == "TopK"
        for attribute in node.attribute
    )


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.topk(x, 3, sorted=False),
        lambda x: x.topk(3, dim=0, largest=False, sorted=False),
    ],
)
def test_topk_is_sorted(tmp_path: Path, function: Any, exporter: Any) -> None:
    x = torch.randperm(20).float().view(5, 4).T.contiguous()
    path = tmp_path / "m.onnx"
    graph, _ = exported(path, function, x, backend=None, exporter=exporter)
    assert unsorted(graph)  # refused
    graph, (values, places) = exported(path, function, x, backend="tensorrt", exporter=exporter)
    assert not unsorted(graph)
    wanted = function(x)
    dim = 1 if values.shape == (4, 3) else 0
    np.testing.assert_array_equal(np.sort(values, dim), wanted.values.sort(dim).values)
    np.testing.assert_array_equal(np.take_along_axis(x.numpy(), places, dim), values)


def concat_dtypes(graph: Any) -> set[int]:
    made = {node.output[0]: node for node in graph.node}
    return {
        next((a.i for a in made[name].attribute if a.name == "to"), 0) if name in made else 0
        for node in graph.node
        if node.op_type == "Concat"
        for name in node.input
    }


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize(
    "function", [lambda x: torch.cat([x, x + 1], 1), lambda x: torch.concat((x, x), dim=-1)]
)
def test_bytes_are_joined_as_int32(tmp_path: Path, function: Any, exporter: Any) -> None:
    x = torch.arange(6, dtype=torch.uint8).view(2, 3)
    path = tmp_path / "m.onnx"
    graph, _ = exported(path, function, x, backend=None, exporter=exporter)
    assert onnx.TensorProto.INT32 not in concat_dtypes(graph)
    graph, (found,) = exported(path, function, x, backend="tensorrt", exporter=exporter)
    assert concat_dtypes(graph) == {onnx.TensorProto.INT32}
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, function(x))


def test_other_dtypes_are_joined_as_they_are(tmp_path: Path) -> None:
    x = torch.ones(2, 3)
    graph, (found,) = exported(
        tmp_path / "m.onnx",
        lambda x: torch.cat([x, x], dim=1),
        x,
        backend="tensorrt",
        exporter="dynamo",
    )
    assert [node.op_type for node in graph.node] == ["Concat"]
    assert found.shape == (2, 6)


def antialiased(graph: Any) -> bool:
    return any(
        attribute.name == "antialias" and attribute.i
        for node in graph.node
        if node.op_type == "Resize"
        for attribute in node.attribute
    )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(
    "how",
    [
        {"size": (3, 5)},
        {"size": 4},
        {"size": (20, 2)},
        {"scale_factor": 0.4},
        {"scale_factor": (0.3, 1.7)},
        {"scale_factor": 0.4, "recompute_scale_factor": True},
    ],
)
def test_weights_are_torchs(mode: str, how: dict[str, Any]) -> None:
    x = torch.randn(2, 3, 9, 11)

    def resized(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, mode=mode, antialias=True, **how)

    wanted = resized(x)
    with eb.rewrite(backend="tensorrt"):
        found = resized(x)
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert not torch.equal(found, wanted)  # it is another computation


def test_antialiased_resizing_is_two_products(tmp_path: Path) -> None:
    x = torch.randn(1, 3, 9, 11)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, (4, 5), mode="bilinear", antialias=True)

    path = tmp_path / "m.onnx"
    graph, _ = exported(path, function, x, backend=None, exporter="dynamo")
    assert antialiased(graph)  # refused
    graph, (found,) = exported(path, function, x, backend="tensorrt", exporter="dynamo")
    assert "Resize" not in {node.op_type for node in graph.node}
    np.testing.assert_allclose(found, function(x), rtol=1e-4, atol=1e-5)


def test_resizing_without_antialias_is_left_alone(tmp_path: Path) -> None:
    graph, _ = exported(
        tmp_path / "m.onnx",
        lambda x: torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear"),
        torch.randn(1, 3, 4, 4),
        backend="tensorrt",
        exporter="dynamo",
    )
    assert "Resize" in {node.op_type for node in graph.node}
