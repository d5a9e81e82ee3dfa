"""The tolerances accept the rounding of real engines and reject wrong outputs."""

from __future__ import annotations

import io
import warnings

import onnxruntime
import pytest
import torch

import enginebay as eb
from enginebay.authors.arrays import compare_outputs


class Residual(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = torch.nn.Sequential(
            torch.nn.Conv2d(width, width, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(width),
            torch.nn.ReLU(),
            torch.nn.Conv2d(width, width, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return torch.relu(x + self.branch(x))


def residual_net(*tail: torch.nn.Module) -> torch.nn.Module:
    """Return a network of 34 layers whose batch norms have statistics of random data."""
    torch.manual_seed(0)
    blocks = [Residual(32) for _ in range(16)]
    head = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 100)]
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 7, 2, 3), *blocks, *head, *tail)
    with torch.no_grad():
        net.train()(torch.randn(8, 3, 32, 32))
    return net.eval()


def run_both(net: torch.nn.Module, x: torch.Tensor):
    """Return the outputs of PyTorch and of ONNX Runtime."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript itself is deprecated
        torch.onnx.export(net, (x,), file, dynamo=False, input_names=["x"], opset_version=17)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file.getvalue(), options)
    with torch.no_grad():
        return {"y": net(x)}, {"y": session.run(None, {"x": x.numpy()})[0]}


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e4])
def test_rounding_of_an_engine_passes_with_margin(unit):
    net = residual_net()
    with torch.no_grad():
        net[-1].weight.mul_(unit)
        net[-1].bias.mul_(unit)
    expected, found = run_both(net, torch.randn(2, 3, 32, 32))
    (output,) = compare_outputs(expected, found)
    assert output.passed
    assert output.rtol_that_passes is not None
    assert 0 < output.rtol_that_passes < 2**-13 / 4


@pytest.mark.parametrize("tail", [torch.nn.Softmax(-1), torch.nn.Sigmoid(), torch.nn.ReLU()])
def test_rounding_passes_for_outputs_of_any_distribution(tail):
    expected, found = run_both(residual_net(tail), torch.randn(2, 3, 32, 32))
    assert compare_outputs(expected, found)[0].passed


def test_a_slightly_wrong_model_does_not_pass():
    net, x = residual_net(), torch.randn(2, 3, 32, 32)
    _, found = run_both(net, x)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.eps = 1e-3  # another framework's default
        expected = {"y": net(x)}
    assert not compare_outputs(expected, found)[0].passed


def test_half_precision_passes_only_with_its_own_tolerance():
    net, x = residual_net(), torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected = {"y": net(x)}
        for dtype, precision in ((torch.float16, "fp16"), (torch.bfloat16, "bf16")):
            found = {"y": net.to(dtype)(x.to(dtype)).float()}
            net.float()
            assert not compare_outputs(expected, found)[0].passed
            assert compare_outputs(expected, found, precision=precision)[0].passed


class Brighter(torch.nn.Module):
    def forward(self, x):
        return x


def planes() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.ReLU(),
        Brighter(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 4),
    )


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")  # the probes of zeros warn
@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "ncnn"])
def test_rounding_of_long_sums_is_verified(backend, tmp_path):
    example = torch.rand(1, 3, 384, 384)
    deployment = eb.deploy(planes(), example, backend=backend, work_dir=tmp_path / "a")
    assert deployment.verdict == "verified"


@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")
def test_error_of_a_thousandth_in_a_large_image_is_a_mismatch(tmp_path):
    rewriters = eb.RewriterSet()
    rewriters.function(f"{__name__}.Brighter.forward")(lambda ctx, self, x: x * 1.001)
    deployment = eb.deploy(
        *(planes(), torch.rand(1, 3, 384, 384)),
        backend="ncnn",
        work_dir=tmp_path / "a",
        export=eb.ExportOptions(rewriters=[rewriters]),
        verify=eb.VerifyOptions(allow_mismatch=True),
    )
    assert deployment.verdict == "mismatched"


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")
def test_order_of_ties_is_not_a_mismatch(tmp_path, engine):
    class Best(torch.nn.Module):
        def forward(self, x):
            return tuple(x.relu().topk(12))

    def verdict(name, **options):
        deployed = eb.deploy(
            Best(),
            torch.randn(4, 16, generator=torch.Generator().manual_seed(0)),
            backend=engine,
            work_dir=tmp_path / name,
            verify=eb.VerifyOptions(allow_unverified=True, **options),
        )
        return deployed.verdict

    assert verdict("places") in (
        "unverified",
        "verified",
    )  # verified if the engine orders ties as PyTorch does
    assert verdict("set", compare={"output_0,output_1": "top-k:12"}) == "verified"
