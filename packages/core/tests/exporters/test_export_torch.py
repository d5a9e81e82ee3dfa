from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from packages.core.tests.exports import export
from packages.core.tests.rewriting.contexts import rewrite
from torch import nn

from enginebay.errors import ExportError, ModelSourceError, UsageError
from enginebay.evaluator.onnx_evaluator import reference_outputs
from enginebay.exporters import write_ir
from enginebay.ir.torch_file import read_exported_program, read_torchscript
from enginebay.models import bind
from enginebay.models.signature import read_signature
from enginebay.rewriting import RewriterSet
from enginebay.sources import find_model

if TYPE_CHECKING:
    from enginebay.ir.model import IRModel
    from enginebay.params import IRKind


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.drop = nn.Dropout(0.9)

    def forward(self, x, batch, *, flag=True):
        return {"y": self.drop(self.linear(x)), "aux": [batch["a"] * 2, x] if flag else None}


X = torch.randn(1, 4)
ARGS = (X, {"a": torch.arange(3)})
DYNAMIC = {"x": {0: ("batch", 1, 8)}}


@pytest.fixture(scope="module")
def model() -> Nested:
    return Nested()


@pytest.fixture(scope="module", params=["torchscript", "exported_program"])
def written(request, model, tmp_path_factory) -> IRModel:
    path = tmp_path_factory.mktemp(request.param) / "m"
    return export(model, ARGS, ir=request.param, path=path, dynamic=DYNAMIC)


def loaded(ir: IRModel):
    if ir.kind == "torchscript":
        return read_torchscript(ir.path)
    program, read = read_exported_program(ir.path)
    return program.module(), read


def test_torch_file_matches_the_model_at_any_batch(model, written) -> None:
    module, _ = loaded(written)
    signature = read_signature(model, ARGS)
    for batch in (1, 2, 8):
        inputs = {"x": torch.randn(batch, 4), "batch.a": torch.arange(3)}
        wanted = signature.run(model, inputs)
        for output, tensor in zip(module(*inputs.values()), wanted.values(), strict=True):
            torch.testing.assert_close(output, tensor)


def test_the_file_keeps_names_dtypes_and_open_dimensions(written) -> None:
    _, read = loaded(written)
    assert [spec.describe() for spec in read.inputs] == ["x float32[batch, 4]", "batch.a int64[3]"]
    assert [spec.describe() for spec in read.outputs] == [
        "y float32[batch, 2]",
        "aux.0 int64[3]",
        "aux.1 float32[batch, 4]",
    ]
    assert (read.inputs, read.outputs) == (written.inputs, written.outputs)


def test_ir_kind_decides_suffix_and_exporter(written) -> None:
    properties = written.path.name, written.exporter, written.files, written.opset
    wanted = {
        "torchscript": ("m.pt", "torch.jit.trace"),
        "exported_program": ("m.pt2", "torch.export"),
    }
    assert properties == (*wanted[written.kind], (written.path,), None)


class Sine(nn.Module):
    """Calls NumPy, which torch.export cannot run on fake tensors, but can read in strict mode."""

    def forward(self, x, *, scale, power=2):
        sine = torch.from_numpy(np.sin(x.numpy()))
        return torch.nn.functional.silu(sine) * scale["all"] ** power


@pytest.mark.parametrize(("ir", "reason"), [("onnx", ""), ("exported_program", ": RuntimeError: ")])
def test_strict_capture_applies_the_rewriters(ir: IRKind, reason: str, tmp_path) -> None:
    mine = RewriterSet()

    @mine.function("torch.nn.functional.silu")
    def tripled(ctx, x, inplace=False):
        return ctx.origin_func(x) * 3

    given = (torch.ones(2, 3), {"scale": {"all": torch.full((3,), 2.0)}})
    wanted = Sine()(given[0], **given[1])
    with rewrite(Sine(), backend="", ir=ir, rewriters=[mine]) as rewriting:
        written = export(rewriting.model, given, ir=ir, path=tmp_path / "sine")
    assert rewriting.report.fired["torch.nn.functional.silu"]
    (note,) = written.notes
    assert note.startswith(
        f"captured in torch.export's strict mode, because the default mode failed{reason}"
    )
    inputs = {"x": given[0], "scale.all": given[1]["scale"]["all"]}
    if ir == "onnx":
        arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
        output = reference_outputs(written.path, arrays)["output"]
    else:
        output = read_exported_program(written.path)[0].module()(*inputs.values())[0].numpy()
    np.testing.assert_allclose(output, wanted.numpy() * 3, rtol=1e-6)


def test_export_restores_training_mode(model, written) -> None:
    assert model.training
    assert model.drop.training


def test_file_of_the_requested_kind_is_reused(written) -> None:
    bound = bind(find_model(written.path))
    assert bound.file(written.kind) == replace(written, exporter="file", notes=())
    assert bound.file("onnx") is None


def test_torch_file_becomes_onnx_with_same_names_and_outputs(model, written, tmp_path) -> None:
    program = written.kind == "exported_program"
    options = {} if program else {"args": (X, ARGS[1]["a"]), "dynamic": DYNAMIC}
    ir = export(written, path=tmp_path / "m", **options)
    assert ir.inputs == written.inputs
    assert ir.outputs == written.outputs
    assert ir.exporter == f"torch.onnx {'dynamo' if program else 'torchscript'}"
    signature = read_signature(model, ARGS)
    inputs = {name: tensor.numpy() for name, tensor in signature.example_inputs.items()}
    outputs = reference_outputs(ir.path, inputs)
    for name, tensor in signature.example_outputs.items():
        torch.testing.assert_close(torch.from_numpy(outputs[name]), tensor)


def test_onnx_file_to_torchscript_is_refused(tmp_path) -> None:
    ir = export(nn.ReLU(), X, path=tmp_path / "m.onnx")
    bound = bind(find_model(ir.path))
    assert bound.file("onnx") == bound.source.ir
    with pytest.raises(ExportError) as caught:
        write_ir(bound, "torchscript", tmp_path / "m.pt")
    message = f"'{ir.path}': an ONNX file cannot be converted to torchscript"
    assert str(caught.value) == message


class Captured(nn.Module):
    def forward(self, a, b, flag=True, *, mask=None):
        return {"sum": a["p"] + b[0] * b[1], "masked": mask * 2}


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    ones = torch.ones(2)
    return torch.export.export(Captured(), ({"p": ones}, [ones, ones]), {"mask": ones})


@pytest.mark.parametrize("ir", ["onnx", "exported_program"])
def test_exported_program_inputs_are_named_by_their_paths(program, ir, tmp_path) -> None:
    written = export(program, ir=ir, path=tmp_path / "m")
    assert [spec.name for spec in written.inputs] == ["a.p", "b.0", "b.1", "mask"]
    assert [spec.name for spec in written.outputs] == ["sum", "masked"]


def test_exported_program_accepts_given_names(program, tmp_path) -> None:
    names = {"input_names": list("abcd"), "output_names": list("ef")}
    written = export(program, ir="exported_program", path=tmp_path / "m", **names)
    _, read = read_exported_program(written.path)
    assert [spec.name for spec in (*read.inputs, *read.outputs)] == list("abcdef")


def test_a_captured_program_is_traced_with_its_own_inputs(program, tmp_path) -> None:
    written = export(program, ir="torchscript", path=tmp_path / "m")
    module, _ = read_torchscript(written.path)
    total, masked = module(*[torch.full((2,), 3.0)] * 4)
    assert (total.tolist(), masked.tolist()) == ([12, 12], [6, 6])


def test_a_captured_programs_dimensions_cannot_be_opened(program, tmp_path) -> None:
    with pytest.raises(UsageError) as caught:
        export(program, path=tmp_path / "m", dynamic={"mask": {0: "n"}})
    message = "dimension 'n' (axis 0 of 'mask') was fixed when the exported program was captured"
    assert str(caught.value) == message


def test_a_program_that_the_exporter_refuses_is_an_export_error(tmp_path) -> None:
    class Eigen(nn.Module):
        def forward(self, x):
            return torch.linalg.eigh(x)[0]

    captured = torch.export.export(Eigen(), (torch.eye(2),))
    with pytest.raises(ExportError, match=r"^the model cannot be exported by the default exporter"):
        export(captured, path=tmp_path / "m")


@pytest.fixture(scope="module")
def script():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript itself is deprecated
        return torch.jit.script(nn.Sequential(nn.Linear(4, 2), nn.ReLU()))


def test_torchscript_becomes_onnx_through_its_own_exporter(script, tmp_path) -> None:
    ir = export(script, X, path=tmp_path / "m", dynamic={"input": {0: "n"}})
    assert (ir.exporter, ir.notes) == ("torch.onnx torchscript", ())
    outputs = reference_outputs(ir.path, {"input": X.repeat(3, 1).numpy()})
    torch.testing.assert_close(torch.from_numpy(outputs["output"]), script(X.repeat(3, 1)))


def test_torchscript_becomes_torchscript(script, tmp_path) -> None:
    ir = export(script, X, ir="torchscript", path=tmp_path / "m")
    torch.testing.assert_close(read_torchscript(ir.path)[0](X)[0], script(X))


def test_torchscript_to_exported_program_is_refused(script, tmp_path) -> None:
    with pytest.raises(ExportError) as caught:
        export(script, X, ir="exported_program", path=tmp_path / "m")
    message = (
        "TorchScript cannot be converted to an exported program: torch.export requires Python code"
    )
    assert str(caught.value) == message


def test_a_trace_of_a_random_model_has_a_note(tmp_path) -> None:
    class Random(nn.Module):
        def forward(self, x):
            return x, torch.rand_like(x)

    ir = export(Random(), X, ir="torchscript", path=tmp_path / "m")
    assert ir.notes == ("tracing: output 'output_1' of the trace differs from the model's",)


def test_nan_outputs_are_not_a_trace_difference(tmp_path) -> None:
    class Nan(nn.Module):
        def forward(self, x):
            return x * float("nan")

    assert export(Nan(), X, ir="torchscript", path=tmp_path / "m").notes == ()


class Fixed(nn.Module):
    def forward(self, x):
        return x.reshape(2, 2, 2)


def test_dynamic_dimension_fixed_by_the_model_is_refused(tmp_path) -> None:
    with pytest.raises(ExportError) as caught:
        export(
            Fixed(),
            torch.ones(2, 4),
            ir="exported_program",
            path=tmp_path / "m",
            dynamic={"x": {0: "n"}},
        )
    assert str(caught.value) == (
        "the model cannot be exported by torch.export: UserError: You marked n as dynamic but your "
        "code specialized it to be a constant (2)"
    )


def test_size_refused_by_the_model_is_noted_or_an_error(tmp_path) -> None:
    options = {"ir": "torchscript", "path": tmp_path / "m"}
    refusal = "the model fails with n=4: RuntimeError: shape '[2, 2, 2]' is invalid"
    ir = export(Fixed(), torch.ones(2, 4), dynamic={"x": {0: "n"}}, **options)
    assert ir.outputs[0].dims is None
    assert ir.notes[0].startswith(refusal)
    with pytest.raises(ExportError, match="shape '") as caught:
        export(Fixed(), torch.ones(2, 4), dynamic={"x": {0: ("n", 1, 8)}}, **options)
    assert f"by torch.jit.trace: {refusal}" in str(caught.value)
    assert caught.value.hint == "narrow the ranges in 'dynamic'"


def test_a_foreign_torchscript_file_has_no_specs(script, tmp_path) -> None:
    script.save(tmp_path / "foreign.pt")
    module, ir = read_torchscript(tmp_path / "foreign.pt")
    assert (ir.inputs, ir.outputs) == ((), ())
    assert [spec.name for spec in read_signature(module, X).inputs] == ["input"]


def test_damaged_metadata_in_torchscript_is_refused(script, tmp_path) -> None:
    path = tmp_path / "m.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript itself is deprecated
        torch.jit.save(script, path, _extra_files={"enginebay.json": '{"inputs": 3}'})
    with pytest.raises(
        ModelSourceError, match=r"is damaged: the metadata 'enginebay.json' cannot be read: "
    ):
        read_torchscript(path)


class Causal(nn.Module):
    """Compares a size, which is a tensor in a trace, but attention requires a bool."""

    def forward(self, x):
        if torch.is_tensor(x.shape[1]) and x.sum() > 0:  # true only in a trace
            x = x * 1
        return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=x.shape[1] > 1)


def test_exported_graph_is_traced_when_the_model_cannot_be(tmp_path) -> None:
    x, other = torch.randn(2, 5, 8), torch.randn(7, 5, 8)
    ir = export(
        Causal(),
        x,
        ir="torchscript",
        path=tmp_path / "m.pt",
        dynamic={"x": {0: "batch"}},
    )
    (note,) = ir.notes
    assert note.startswith(
        "torch.export's graph was traced, because the model itself cannot be traced: TypeError: "
        "scaled_dot_product_attention(): argument 'is_causal' must be bool, not Tensor"
    )
    module, _ = loaded(ir)
    (output,) = module(other)
    torch.testing.assert_close(output, Causal()(other))


def test_error_of_an_untraceable_model_has_the_tracers_reason(tmp_path) -> None:
    class Refused(nn.Module):
        def forward(self, x):
            if torch._C._get_tracing_state() is not None:
                raise ValueError("no trace of this")
            return x * (1 if x.sum() > 0 else 2)

    with pytest.raises(ExportError, match=r"torch\.jit\.trace: ValueError: no trace of this"):
        export(Refused(), torch.randn(2, 3), ir="torchscript", path=tmp_path / "m.pt")


class BySize(nn.Module):
    """Names its outputs by their shapes, which a tracer prints differently."""

    def forward(self, x):
        return {str(tuple(each.shape)): each for each in (x * 2, x[:, 1:])}


@pytest.mark.parametrize("kind", ["torchscript", "exported_program", "onnx"])
def test_output_names_that_contain_sizes_are_preserved(kind, tmp_path) -> None:
    ir = export(BySize(), torch.ones(2, 3), ir=kind, path=tmp_path / "model")
    assert [spec.name for spec in ir.outputs] == ["(2, 3)", "(2, 2)"]
