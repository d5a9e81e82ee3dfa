"""Operators that torch's exporters do not translate to ONNX, or translate wrongly."""

from __future__ import annotations

from importlib.util import find_spec

import onnx
import pytest
import torch
from packages.core.tests.rewriting.contexts import rewrite
from packages.core.tests.rewriting.lowered import Net

from enginebay.errors import ExportError
from enginebay.params import DynamicDim
from enginebay_rewriters.builtin import builtin_rewriters


def positive(x):
    return x @ x.mT + torch.eye(2)


def turned(x):
    return x * torch.exp(1j * x)


def mean_of(x, **options):
    index = torch.tensor([[0, 0, 2, 1], [1, 1, 1, 1]]).expand(x.shape[0], 2, 4)
    return torch.zeros(x.shape[0], 2, 4).scatter_reduce(2, index, x, "mean", **options)


INDICES = torch.tensor([3, 3], dtype=torch.int32)

#: Functions of a tensor [batch, 2, 4] whose batch is dynamic.
CASES = {
    "cummax": lambda x: torch.cummax(x, 2),
    "cummin": lambda x: torch.cummin(x, 1),
    "cumprod": lambda x: torch.cumprod(x, -1),
    "cholesky": lambda x: torch.linalg.cholesky(positive(x)),
    "upper cholesky": lambda x: torch.linalg.cholesky_ex(positive(x), upper=True)[0],
    "inv": lambda x: torch.linalg.inv(positive(x)),
    "inverse": lambda x: torch.inverse(positive(x).flip(-1)),
    "solve": lambda x: torch.linalg.solve(positive(x), x),
    "solve from the right": lambda x: torch.linalg.solve(positive(x), x.mT, left=False),
    "searchsorted": lambda x: torch.searchsorted(x.sort(-1)[0], x, right=True),
    "kthvalue": lambda x: torch.kthvalue(x, 3),
    "median of a dimension": lambda x: torch.median(x, -1, keepdim=True),
    "median of all dimensions": torch.median,
    "atan2": lambda x: torch.atan2(torch.stack([x.relu(), -x.relu()]), x.ceil()),
    "copysign": lambda x: x.abs().copysign(x.ceil()),
    "hypot": lambda x: torch.hypot(x, x + 1),
    "log1p near zero": lambda x: torch.log1p(x * 1e-6) * 1e6,
    "expm1 near zero": lambda x: torch.expm1(x * 1e-6) * 1e6,
    "lgamma": lambda x: torch.lgamma(x * 4),
    "erfc far from zero": lambda x: torch.erfc(x.abs() + 4) * 1e8,
    "erfinv": lambda x: torch.erfinv(x.tanh()),
    "angle of a complex number": lambda x: torch.complex(-x.abs(), x * 0).angle(),
    "arithmetic of complex numbers": lambda x: torch.view_as_real(turned(x) * 2j + turned(x)),
    "padding of complex numbers": lambda x: torch.nn.functional.pad(turned(x), (1, 2)).imag,
    "int32 indices": lambda x: torch.zeros(9, 4).index_put((INDICES,), x.sum(0), accumulate=True),
    "scatter_reduce": mean_of,
    "scatter_reduce without self": lambda x: mean_of(x, include_self=False),
}

#: Operators that torch's TorchScript exporter exports wrongly or refuses since torch 2.15.
LATER = {"fill": lambda x: torch.ops.aten.fill(x, 2.0) + x} if torch.__version__ >= "2.15" else {}

#: Functions that the default exporter writes as ``DFT``.
FOURIER = {
    "fft": lambda x: torch.fft.fft(x, norm="ortho").imag,
    "fft of integers": lambda x: torch.fft.fft((x * 9).int(), dim=1).real,
    "fft of the dynamic size": lambda x: torch.fft.fft(x, dim=0, norm="ortho").abs(),
    "fft of a given length": lambda x: torch.fft.fft(x, n=3).real,
    "ifft": lambda x: torch.fft.ifft(x, norm="forward").real,
    "rfft": lambda x: torch.view_as_real(torch.fft.rfft(x, dim=1, norm="forward")),
    "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x)),
    "hfft": torch.fft.hfft,
    "fft2": lambda x: torch.fft.fft2(x).real,
    "ifft2 and fft": lambda x: torch.fft.ifft2(torch.fft.fft(x, dim=0), norm="ortho").real,
    "fftn of all dimensions": lambda x: torch.fft.fftn(x).real,
    "ifftn of all dimensions": lambda x: torch.fft.ifftn(x).imag,
    "fftn of given lengths": lambda x: torch.fft.fftn(x, s=(2, 2), dim=(1, 2)).real,
    "stft": lambda x: spectrum(x).abs(),
    "istft": lambda x: torch.istft(spectrum(x) * 2, 4, 2, window=torch.hamming_window(4)),
}


def spectrum(x):
    return torch.stft(x.flatten(1), 4, 2, window=torch.hamming_window(4), return_complex=True)


SOME = ("cummax", "inverse", "searchsorted", "arithmetic of complex numbers")
#: The other exporter gets the same graph: a few are enough.
BOTH = [
    *((case, "dynamo") for case in CASES),
    *((case, "torchscript") for case in (*SOME, *FOURIER, *LATER)),
]


@pytest.mark.skipif(
    find_spec("onnxruntime") is None,
    reason="its target is ONNX Runtime: the session onnxruntime runs this file too",
)
@pytest.mark.one_in(4)
@pytest.mark.parametrize(("case", "exporter"), BOTH)
def test_operators_with_dynamic_batch_export_correctly_only_with_lowerings(export, exporter, case):
    torch.manual_seed(0)
    x, other = torch.randn(3, 2, 4), torch.randn(5, 2, 4)
    options = {"exporter": exporter, "dynamic": {"args_0": {0: DynamicDim("batch")}}}
    function = (CASES | FOURIER | LATER)[case]
    exported = export(Net(function), (x,), builtin=True, **options)
    assert any(each.kind == "lowering" and each.count for each in exported.report.applied)
    expected = function(other)
    expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    assert same(exported.run_on_target(other), expected)
    try:
        plain = export(Net(function), (x,), **options).run_on_target(other)
    except Exception:
        return
    assert not same(plain, expected)


@pytest.mark.skipif(
    find_spec("onnxruntime") is None,
    reason="its target is ONNX Runtime: the session onnxruntime runs this file too",
)
def test_istft_of_a_batch_is_exported_in_few_nodes(export):
    # torch's own decomposition has nodes for each value of the window: its export takes minutes.
    def back(x):
        return torch.istft(torch.complex(x, x * 2), 64, 16, window=torch.hann_window(64))

    x = torch.randn(2, 33, 9)
    exported = export(Net(back), (x,), exporter="dynamo", builtin=True)
    assert len(onnx.load(exported.path).graph.node) < 64
    assert same(exported.run_on_target(x), [back(x)])


def test_torchscript_exporter_refuses_complex_outputs(export):
    options = {"exporter": "torchscript", "builtin": True}
    with pytest.raises(ExportError, match="operator 'aten::complex' to ONNX"):
        export(Net(torch.fft.fft), (torch.randn(2, 4),), **options)


def same(results, expected):
    pairs = zip(results, expected, strict=True)
    return all(torch.allclose(result, value, rtol=1e-4, atol=1e-4) for result, value in pairs)


def test_every_onnx_only_lowering_is_tested():
    named = {each.name for each in builtin_rewriters() if each.kind == "lowering" and each.ir}
    assert named == {
        *("aten.scatter_reduce", "aten.index_put", "aten._unsafe_index_put"),
        *("aten._is_all_true", "aten.angle", "aten.atan2", "aten.fill"),
        *("aten.expm1", "aten.log1p", "aten.erfc", "aten.div.Tensor_mode"),
    }


def test_every_builtin_lowering_names_an_operator_of_captured_graphs():
    with rewrite(backend="any", operators=frozenset()) as rewriting:
        report = rewriting.report
    assert not report.not_served
    assert not [line for line in report.not_found if "lowering" in line]
