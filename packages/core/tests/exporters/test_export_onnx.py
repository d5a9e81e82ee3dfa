from __future__ import annotations

import contextlib
import gc
import sys
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from packages.core.tests.exports import export
from torch import nn
from torch.utils import _pytree as pytree

from enginebay.errors import ExportError, InputError, ModelError, RewriterError, UsageError
from enginebay.evaluator.onnx_evaluator import reference_outputs
from enginebay.ir.onnx_file import read_onnx
from enginebay.models.signature import read_signature

EXPORTERS = ["dynamo", "torchscript"]


@dataclass
class Output:
    logits: torch.Tensor
    states: tuple | None = None


pytree.register_dataclass(Output)


class Mixed(nn.Module):
    """Several and nested inputs, constants, integers, booleans, half precision, no gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, ids, mask, extra, *, scale=1.0, half=None):
        hidden = self.drop(self.embed(ids)).masked_fill(~mask[..., None], 0)
        logits = self.head(hidden) * scale
        states = (hidden.sum(), extra["a"][0] + 1, half * 2, ids, ids)
        return Output(logits, states), None, {"raw": extra["a"][1]}


MIXED = (
    torch.arange(10).reshape(2, 5),
    torch.arange(10).reshape(2, 5) % 3 > 0,
    {"a": [torch.ones(2, 4), torch.arange(4.0)]},
    {"scale": 2.0, "half": torch.ones(3).half()},
)


def run(ir, inputs: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    arrays = {spec.name: inputs[spec.name].numpy() for spec in ir.inputs}
    outputs = reference_outputs(ir.path, arrays)
    return {name: np.asarray(value) for name, value in outputs.items()}


def assert_same(outputs: dict[str, np.ndarray], wanted: dict[str, torch.Tensor]) -> None:
    assert list(outputs) == list(wanted)
    for name, tensor in wanted.items():
        assert outputs[name].dtype == tensor.numpy().dtype
        np.testing.assert_allclose(outputs[name], tensor.numpy(), rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module", params=EXPORTERS)
def mixed(request, tmp_path_factory):
    model = Mixed().train()
    model.drop.eval()
    path = tmp_path_factory.mktemp(request.param) / "mixed.onnx"
    dynamic = {
        "ids": {0: "batch", 1: ("length", 1, 64)},
        "mask": {0: "batch", 1: "length"},
        "extra.a.0": {0: "rows"},
    }
    ir = export(model, MIXED, path=path, exporter=request.param, dynamic=dynamic)
    return model, ir


def test_onnx_outputs_match_the_model(mixed) -> None:
    model, ir = mixed
    signature = read_signature(model, MIXED)
    assert_same(run(ir, signature.example_inputs), signature.example_outputs)


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 64), (3, 7)])
def test_exported_file_runs_at_other_sizes(mixed, batch: int, length: int) -> None:
    model, ir = mixed
    signature = read_signature(model, MIXED)
    inputs = signature.example_inputs | {
        "ids": torch.ones(batch, length, dtype=torch.int64),
        "mask": torch.ones(batch, length, dtype=torch.bool),
    }
    assert_same(run(ir, inputs), signature.run(model, inputs))


def test_specs_contain_names_dtypes_and_dynamic_dimensions(mixed) -> None:
    _, ir = mixed
    assert [spec.describe() for spec in ir.inputs] == [
        "ids int64[batch, length]",
        "mask bool[batch, length]",
        "extra.a.0 float32[rows, 4]",
        "extra.a.1 float32[4]",
        "half float16[3]",
    ]
    assert [spec.describe() for spec in ir.outputs] == [
        "output_0.logits float32[batch, length, 3]",
        "output_0.states.0 float32[]",
        "output_0.states.1 float32[rows, 4]",
        "output_0.states.2 float16[3]",
        "output_0.states.3 int64[batch, length]",
        "output_0.states.4 int64[batch, length]",
        "output_2.raw float32[4]",
    ]


def test_returned_specs_match_the_written_file(mixed) -> None:
    _, ir = mixed
    read = read_onnx(ir.path)
    assert (read.inputs, read.outputs, read.files, read.opset) == (
        ir.inputs, ir.outputs, ir.files, ir.opset
    )  # fmt: skip
    onnx.checker.check_model(str(ir.path), full_check=True)


def test_export_restores_the_mode_of_every_submodule(mixed) -> None:
    model, _ = mixed
    assert model.training
    assert model.head.training
    assert not model.drop.training


def test_export_leaves_no_temporary_files(mixed) -> None:
    _, ir = mixed
    assert list(ir.path.parent.iterdir()) == [ir.path]
    assert ir.files == (ir.path,)


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)

    def forward(self, x):
        return self.norm(self.conv(x))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_batch_of_one_can_be_open(tmp_path, exporter: str) -> None:
    model, x = Conv(), torch.randn(1, 1, 8, 8)
    dynamic = {"x": {0: ("batch", 1, 4), 2: ("h", 4, 64), 3: ("w", 4, 64)}}
    ir = export(model, x, path=tmp_path / "conv", exporter=exporter, dynamic=dynamic)
    assert ir.path == tmp_path / "conv.onnx"
    assert [spec.describe() for spec in (*ir.inputs, *ir.outputs)] == [
        "x float32[batch, 1, h, w]",
        "output float32[batch, 2, h, w]",
    ]
    signature = read_signature(model, x)
    for shape in [(1, 1, 8, 8), (4, 1, 5, 9)]:
        inputs = {"x": torch.randn(shape)}
        assert_same(run(ir, inputs), signature.run(model, inputs))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_range_of_a_single_size_becomes_a_fixed_dimension(tmp_path, exporter: str) -> None:
    dynamic = {"x": {0: ("batch", 3, 3), 2: ("h", 4, 64)}}
    path = tmp_path / "m"
    ir = export(Conv(), torch.randn(1, 1, 8, 8), path=path, exporter=exporter, dynamic=dynamic)
    assert [spec.dims for spec in (*ir.inputs, *ir.outputs)] == [(3, 1, "h", 8), (3, 2, "h", 8)]


class Script(nn.Module):
    """A branch that depends on values: torch.export refuses, tracing takes one side."""

    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


def test_torchscript_exporter_takes_over_with_a_note(tmp_path) -> None:
    ir = export(Script(), torch.ones(2), path=tmp_path / "m.onnx")
    assert ir.exporter == "torch.onnx torchscript"
    first, second = ir.notes
    assert first.startswith(
        "exported by the TorchScript exporter, because the default exporter failed: "
        "GuardOnDataDependentSymNode: Could not guard on data-dependent expression"
    )
    assert second.startswith("tracing: Converting a tensor to a Python boolean")
    assert "(exporters/test_export_onnx.py:" in second


def test_requested_exporter_has_no_fallback(tmp_path, capfd) -> None:
    with pytest.raises(
        ExportError,
        match=r"^the model cannot be exported by the default exporter: Guard[^\n]*\nhint: [^\n]+$",
    ) as caught:
        export(Script(), torch.ones(2), path=tmp_path / "m.onnx", exporter="dynamo")
    assert caught.value.__cause__ is not None
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


class Impossible(nn.Module):
    def forward(self, x):
        return torch.linalg.eigh(x)[0] if x.sum() > 0 else x


def test_error_contains_the_reasons_of_both_exporters(tmp_path, capfd) -> None:
    old = tmp_path / "m.onnx"
    old.write_text("the old one")
    with pytest.raises(ExportError) as caught:
        export(Impossible(), torch.ones(2, 2), path=old)
    message = str(caught.value)
    assert "\n" not in message
    assert "cannot be exported by the default exporter: GuardOnDataDependentSymNode: " in message
    assert "; the TorchScript exporter: UnsupportedOperatorError: Exporting the operator" in message
    assert isinstance(caught.value.__cause__, ExceptionGroup)
    assert len(caught.value.__cause__.exceptions) == 2
    assert capfd.readouterr() == ("", "")
    assert old.read_text() == "the old one"
    assert list(tmp_path.iterdir()) == [old]


class Fixed(nn.Module):
    def forward(self, x):
        return x.reshape(2, 2, 2)


def test_dynamic_dimension_fixed_by_the_model_is_refused(tmp_path) -> None:
    with pytest.raises(ExportError) as caught:
        export(Fixed(), torch.ones(2, 4), path=tmp_path / "m", dynamic={"x": {0: ("n", 1, 9)}})
    assert str(caught.value) == (
        "the model cannot be exported by the default exporter: dimension 'n' (axis 0 of 'x'): "
        "expected a dynamic size, but the model's code fixes it at 2; the TorchScript exporter: "
        "the model fails with n=4: RuntimeError: shape '[2, 2, 2]' is invalid for input of size 16"
    )


class Mutating(nn.Module):
    def forward(self, x, unused):
        x.add_(1)
        return x, x[:1]


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_model_that_writes_into_an_input_leaves_callers_tensor(tmp_path, exporter: str) -> None:
    x = torch.zeros(2, 3)
    ir = export(Mutating(), (x, x), path=tmp_path / "m", exporter=exporter)
    assert torch.equal(x, torch.zeros(2, 3))
    outputs = run(ir, {"x": x, "unused": x})
    assert (outputs["output_0"] == 1).all()
    assert (outputs["output_1"] == np.ones((1, 3))).all()
    left_out = "input 'unused' is not used by the model and is left out"
    assert (left_out in ir.notes) == (exporter == "torchscript")


def test_large_weights_are_written_to_an_external_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("enginebay.exporters.onnx_export.INLINE_WEIGHT_BYTES", 1000)
    model, x = nn.Linear(32, 32), torch.randn(1, 32)
    ir = export(model, x, path=tmp_path / "big.onnx")
    assert ir.files == (tmp_path / "big.onnx", tmp_path / "big.onnx.data")
    assert read_onnx(ir.path).files == ir.files
    signature = read_signature(model, x)
    assert_same(run(ir, signature.example_inputs), signature.example_outputs)
    digest = ir.digest()
    data = bytearray(ir.files[1].read_bytes())
    data[-1] ^= 1
    ir.files[1].write_bytes(data)
    assert ir.digest() != digest


@pytest.mark.parametrize(("opset", "exporter"), [(21, "dynamo"), (13, "torchscript")])
def test_requested_opset_is_used(tmp_path, opset: int, exporter: str) -> None:
    ir = export(nn.ReLU(), torch.ones(2), path=tmp_path / "m", opset=opset)
    assert (ir.opset, ir.exporter) == (opset, f"torch.onnx {exporter}")
    assert ir.notes == (), "no exporter was tried in vain"


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("time", [0, 1])
@pytest.mark.one_in(2)
def test_dynamic_length_is_preserved_by_recurrent_layers(kind, time: int, tmp_path) -> None:
    model, x = kind(4, 3, batch_first=time == 1), torch.randn(5, 5, 4)
    ir = export(model, x, path=tmp_path / "m", dynamic={"input": {time: "t"}})
    assert ir.outputs[0].dims[time] == "t"
    assert read_onnx(ir.path).outputs[0].dims[time] == "t"
    inputs = {"input": torch.randn(7, 5, 4) if time == 0 else torch.randn(5, 7, 4)}
    assert_same(run(ir, inputs), read_signature(model, x).run(model, inputs))


def test_patched_model_is_exported_in_evaluation_mode(tmp_path) -> None:
    entered = []

    @contextlib.contextmanager
    def patch(model, exporter):
        entered.append(model)
        yield nn.Sequential(model, nn.Dropout(0.9), nn.Threshold(0.5, -1.0))
        entered.append("left")

    model = nn.Identity()
    ir = export(model, torch.arange(2.0), path=tmp_path / "m", patch=patch)
    assert entered == [model, "left"]
    assert run(ir, {"input": torch.arange(2.0)})["output"].tolist() == [-1, 1]


def test_rewriter_error_is_not_wrapped_as_export_error(tmp_path) -> None:
    @contextlib.contextmanager
    def patch(model, exporter):
        raise RewriterError("two of them")
        yield model

    with pytest.raises(RewriterError, match=r"^two of them$"):
        export(nn.ReLU(), torch.ones(2), path=tmp_path / "m", patch=patch)


def test_rewriter_error_in_forward_passes_through_the_exporter(tmp_path) -> None:
    class Refusing(nn.Module):
        def forward(self, x):
            raise RewriterError("not on this shape")

    with pytest.raises(RewriterError, match=r"^not on this shape$"):
        export(
            nn.ReLU(),
            torch.ones(2),
            path=tmp_path / "m",
            patch=lambda model, exporter: contextlib.nullcontext(Refusing()),
        )


def test_a_patch_that_loses_an_output_is_an_error(tmp_path) -> None:
    class Two(nn.Module):
        def forward(self, x):
            return x + 1, x + 2

    @contextlib.contextmanager
    def patch(model, exporter):
        yield nn.Identity()

    with pytest.raises(ModelError) as caught:
        export(Two(), torch.ones(2), path=tmp_path / "m", patch=patch)
    assert str(caught.value) == (
        "the model's forward returns a different number of tensors: 2 for the example inputs, now 1"
    )


def test_export_does_not_run_forward_on_real_tensors(tmp_path) -> None:
    calls = []

    class Counting(nn.Module):
        def forward(self, x):
            calls.append(type(x))
            return x + 1

    names = {"input_names": ["a"], "output_names": ["b"]}
    ir = export(Counting(), torch.ones(2), path=tmp_path / "m", **names)
    assert calls[0] is torch.Tensor
    assert torch.Tensor not in calls[1:], "only torch.export's fake tensors may run through it"
    assert ([spec.name for spec in ir.inputs], [spec.name for spec in ir.outputs]) == (["a"], ["b"])


def test_error_in_forward_is_raised_before_exporting(tmp_path) -> None:
    class Raising(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    with pytest.raises(ModelError, match=r"^the model's forward raised ValueError: no \(\S+\)$"):
        export(Raising(), torch.ones(2), path=tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_exits_in_an_exporter_is_an_export_error(tmp_path) -> None:
    class Exiting(nn.Module):
        def forward(self, x):
            return x + 1 if type(x) is torch.Tensor and not torch.jit.is_tracing() else sys.exit(0)

    with pytest.raises(ExportError) as caught:
        export(Exiting(), torch.ones(2), path=tmp_path / "m")
    line = f"(exporters/test_export_onnx.py:{Exiting.forward.__code__.co_firstlineno + 1})"
    assert str(caught.value) == (
        f"the model cannot be exported by the default exporter: SystemExit(0) {line}; "
        f"the TorchScript exporter: SystemExit(0) {line}"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"ir": "tflite"},
            "unknown IR 'tflite'; available: onnx, torchscript, exported_program",
        ),
        ({"exporter": "jax"}, "unknown exporter 'jax'; available: dynamo, torchscript"),
        (
            {"ir": "torchscript", "exporter": "dynamo"},
            "exporter='dynamo' requires ir='onnx'; found ir='torchscript'",
        ),
    ],
)
def test_unknown_ir_or_exporter_is_refused(tmp_path, options, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        export(nn.ReLU(), torch.ones(2), path=tmp_path / "m", **options)
    assert str(caught.value) == message


def test_an_unknown_dynamic_input_is_found_before_exporting(tmp_path) -> None:
    with pytest.raises(InputError, match=r"^dynamic: unknown input 'y'"):
        export(nn.ReLU(), torch.ones(2), path=tmp_path / "m", dynamic={"y": {0: "n"}})


def test_unwritable_path_is_an_export_error(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError) as caught:
        export(nn.ReLU(), torch.ones(2), path=tmp_path / "file" / "m.onnx")
    assert str(caught.value) == f"cannot write '{tmp_path / 'file' / 'm.onnx'}': File exists"


def test_full_disk_stops_the_second_exporter(tmp_path, monkeypatch) -> None:
    import errno

    def full(self, *args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch.onnx.ONNXProgram, "save", full)
    with pytest.raises(ExportError, match=r"^cannot write '.*': No space left on device$"):
        export(nn.ReLU(), torch.ones(2), path=tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("frozen", [False, True])
def test_export_restores_the_frozen_state_of_gc(tmp_path, frozen) -> None:
    gc.unfreeze()  # Python 3.12 starts with frozen objects
    if frozen:
        gc.freeze()
    try:
        export(nn.ReLU(), torch.ones(2), ir="torchscript", path=tmp_path / "m")
        assert bool(gc.get_freeze_count()) == frozen
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_sizes_among_the_results_are_not_outputs(exporter, tmp_path) -> None:
    class Sized(nn.Module):
        def forward(self, x):
            return {"count": x.shape[0], "y": x * 2, "more": [x.shape[1], x + 1]}

    # A tracer turns sizes into tensors.
    ir = export(Sized(), torch.ones(2, 3), path=tmp_path / "m", exporter=exporter)
    assert [spec.name for spec in ir.outputs] == ["y", "more.1"]


# torch.compile imports deprecated parts of torch itself.
@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_compiled_function_is_exported_without_compiling(exporter, tmp_path) -> None:
    @torch.compile(backend=lambda *_: pytest.fail("it was compiled"))
    def doubled(x):
        return x * 2

    class Compiled(nn.Module):
        def forward(self, x):
            return doubled(x) + 1

    ir = export(Compiled(), torch.ones(2, 3), path=tmp_path / "m", exporter=exporter)
    outputs = reference_outputs(ir.path, {"x": np.ones((2, 3), np.float32)})
    assert (outputs["output"] == 3).all()


class Joined(nn.Module):
    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return torch.cat([first, second], 1).mul(2).relu()


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize(
    ("inputs", "output"),
    [(("first", "cat"), "y"), (("mul", "relu"), "y"), (("a", "b"), "cat"), (("relu", "b"), "mul")],
)
def test_names_of_operators_are_names_of_inputs_and_outputs(
    inputs: tuple[str, str], output: str, exporter: str, tmp_path
) -> None:
    example = torch.randn(2, 3), torch.randn(2, 4)
    ir = export(
        *(Joined(), example),
        path=tmp_path / "m.onnx",
        exporter=exporter,
        input_names=inputs,
        output_names=[output],
    )
    onnx.checker.check_model(ir.path, full_check=True)
    feed = {name: tensor.numpy() for name, tensor in zip(inputs, example, strict=True)}
    (found,) = ReferenceEvaluator(str(ir.path)).run([output], feed)
    assert np.array_equal(found, Joined()(*example).numpy())
