"""Models become verified artifacts, which return the tensors of the models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import InferenceError


def outputs_of(model: nn.Module, args: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        return model.eval()(*args)


def test_a_network_of_convolutions_is_verified(deploy, convolutions):
    model, args = convolutions
    deployed = deploy(model, args)
    assert deployed.verdict == "verified"
    assert deployed.artifact.manifest.ir.kind == "torchscript"
    assert not [note for note in deployed.notes if "was not used" in note]


def test_the_artifact_contains_no_other_files_of_pnnx(deploy, convolutions):
    path = deploy(*convolutions).artifact.path
    assert sorted(entry.name for entry in path.iterdir()) == [
        *("manifest.json", "model.bin", "model.param", "model.plan.json", "samples.npz")
    ]


def test_the_wrapper_has_the_models_names_shapes_and_dtypes(deploy, convolutions):
    model, args = convolutions
    with eb.load(deploy(model, args).artifact) as net:
        found = net(dict(zip(net.input_names, args, strict=True)))
    wanted = outputs_of(model, args)
    assert list(found) == list(wanted)
    for name, tensor in wanted.items():
        assert found[name].shape == tensor.shape
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)


def test_a_dynamic_batch_is_run_in_pieces(deploy, convolutions):
    model, args = convolutions
    deployed = deploy(model, args, dynamic={"image": {0: ("batch", 1, 5)}})
    with eb.load(deployed.artifact) as net:
        for size in (1, 2, 5):
            args = (torch.randn(size, 3, 8, 8), *args[1:])
            found = net(dict(zip(net.input_names, args, strict=True)))
            for name, tensor in outputs_of(model, args).items():
                torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)


def test_an_empty_batch_gives_empty_outputs(deploy, convolutions):
    model, args = convolutions
    deployed = deploy(model, args, dynamic={"image": {0: ("batch", 0, 4)}})
    with eb.load(deployed.artifact) as net:
        args = (torch.randn(0, 3, 8, 8), *args[1:])
        found = net(dict(zip(net.input_names, args, strict=True)))
    assert {name: tuple(t.shape) for name, t in found.items()} == {
        "logits": (0, 5),
        "maps": (0, 8, 8, 8),
    }


def test_a_fixed_batch_is_run_in_one_call(deploy, convolutions):
    model, args = convolutions
    args = (torch.randn(3, 3, 8, 8), *args[1:])
    assert deploy(model, args).verdict == "verified"


class Outer(nn.Module):
    """No batch anywhere, and an output that has more dimensions than any input."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a[:, None] * b[None, :], (a.sum() + b.sum())


def test_a_model_without_a_batch_keeps_its_shapes(deploy):
    args = (torch.randn(3), torch.randn(4))
    with eb.load(deploy(Outer(), args).artifact) as net:
        table, total = net({"a": args[0], "b": args[1]}).values()
    assert table.shape == (3, 4)
    assert total.shape == ()
    torch.testing.assert_close(table, args[0][:, None] * args[1])


class BatchSecond(nn.Module):
    """Time first, batch second, as recurrent networks have it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).transpose(0, 1)


def test_an_output_with_a_later_batch_axis_is_joined(deploy):
    model, x = BatchSecond(), torch.randn(2, 5, 4)
    deployed = deploy(model, x, dynamic={"x": {0: "batch"}})
    with eb.load(deployed.artifact) as net:
        x = torch.randn(3, 5, 4)
        torch.testing.assert_close(net({"x": x})["output"], model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*the same in all samples")
def test_integers_and_booleans_keep_their_dtypes(deploy, tokens):
    model, args = tokens
    deployed = deploy(model, args)
    assert deployed.verdict == "verified"
    with eb.load(deployed.artifact) as net:
        ids = np.arange(6, dtype=np.int64)[None]
        keep = np.array([[True, True, False, True, False, True]])
        found = net({"ids": ids, "keep": keep})
    assert found["next"].dtype == np.int64
    np.testing.assert_array_equal(found["next"], ids + 1)
    np.testing.assert_array_equal(found["is_first"], [[False, True, *[False] * 4]])


@pytest.mark.filterwarnings("ignore:.*the same in all samples")
def test_an_integer_beyond_int32_is_refused(deploy, tokens):
    model, args = tokens
    with eb.load(deploy(model, args).artifact) as net:
        ids = torch.full((1, 6), 2**40)
        with pytest.raises(
            InferenceError, match="contains 1099511627776, which ncnn's int32 cannot"
        ):
            net({"ids": ids, "keep": args[1]})


class Rest(nn.Module):
    def forward(self, ids):
        return ids % 3


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_an_integer_that_would_be_rounded_is_refused(deploy, dtype):
    with eb.load(deploy(Rest(), torch.arange(6, dtype=dtype)).artifact) as net:
        assert net({"ids": torch.tensor([2**24, -1, 0, 1, 2, 3], dtype=dtype)})["output"][0] == 1
        ids = torch.tensor([2**24 + 1, 0, 0, 0, 0, 0], dtype=dtype)
        with pytest.raises(InferenceError, match="contains 16777217, which ncnn's float32 cannot"):
            net({"ids": ids})


def test_half_precision_is_stored_only_if_requested(deploy):
    model, x = nn.Linear(64, 64), torch.randn(1, 64)
    sizes = {
        precision: (deploy(model, x, params={"precision": precision}).artifact.path / "model.bin")
        .stat()
        .st_size
        for precision in ("fp32", "fp16")
    }
    assert sizes["fp32"] > 4 * 64 * 64
    assert sizes["fp16"] < sizes["fp32"] * 0.6


def test_an_onnx_model_is_verified(deploy, convolutions):
    deployed = deploy(*convolutions, export={"ir": "onnx"})
    assert deployed.verdict == "verified"
    assert deployed.artifact.manifest.ir.kind == "onnx"
