"""Whether model files are the same model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from packages.lab.tests.diagnosis.audited_files import (
    WEIGHTS,
    change,
    save_half,
    save_net,
    save_quantised,
)

import enginebay_lab as lab
from enginebay.authors.files import to_half
from enginebay.errors import EnginebayError, InputError, ModelError, ModelSourceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_lab import Audit, AuditRow


@pytest.fixture(scope="module", autouse=True)
def _evaluator() -> Iterator[None]:
    """Let onnx's evaluator run the files, in one process for each: no backend is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEBAY_BACKENDS", "none")
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of ``net.onnx``, and of the files that are compared with it."""
    path = tmp_path_factory.mktemp("audit")
    save_net(path / "net.onnx")
    return path


@pytest.fixture(scope="module")
def audited(folder: Path) -> Audit:
    """An audit of all files that can be compared with ``net.onnx``."""
    net = folder / "net.onnx"
    save_net(folder / "external.onnx", external=True)
    save_half(folder / "half.onnx")
    to_half(net, folder / "converted.onnx", "fp16")
    to_half(net, folder / "brain.onnx", "bf16")
    save_quantised(folder / "int8.onnx")
    save_quantised(folder / "int8-drifted.onnx", drift=1.05)
    save_net(folder / "weight.onnx", change("second.weight", 1e-5))
    zeros = {"third.bias": np.zeros(6, "float32")}
    save_net(folder / "bias.onnx", {**change("first.bias", 0.5), **zeros})
    save_net(folder / "node.onnx", activation="Sigmoid")
    save_net(folder / "unknown.onnx", activation="Unknown")
    _save_renamed(folder / "renamed.onnx")
    _save_unfused(folder / "unfused.onnx")
    others = sorted(path for path in folder.glob("*.onnx") if path != net)
    return lab.audit([net, *others])


def _save_renamed(path: Path) -> None:
    """Write the net of an older exporter: a transposed weight, a Constant, an open size."""
    names = ("w_1", "b_1", "w_2", "b_2")
    weights = dict(zip(names, WEIGHTS.values(), strict=True))
    tensor = helper.make_tensor("", TensorProto.FLOAT, (6, 4), weights.pop("w_2").ravel())
    turned = np.ascontiguousarray(weights.pop("w_1").T)
    before = [
        helper.make_node("Constant", [], ["w_2"], value=tensor),
        helper.make_node("Transpose", ["turned"], ["w_1"]),
    ]
    save_net(
        path,
        {**weights, "turned": turned},
        names=names,
        before=before,
        ends=("image", "scores"),
        dims=("batch", 8),
        opset=13,
    )


def _save_unfused(path: Path) -> None:
    """Write the net with a weight that a product of two others replaces."""
    factor = np.full(4, 0.5, "float32")
    weights = {**WEIGHTS, "double": WEIGHTS["second.weight"] / factor, "factor": factor}
    del weights["second.weight"]
    product = helper.make_node("Mul", ["double", "factor"], ["second.weight"])
    save_net(path, weights, before=[product])


def row_of(audited: Audit, name: str) -> AuditRow:
    """Return the row of the file with a name."""
    (row,) = (row for row in audited.rows if Path(row.file).stem == name)
    return row


def test_a_copy_is_the_same_model(audited: Audit) -> None:
    row = row_of(audited, "external")
    assert (row.same, row.weights, row.total) == (True, "equal", 4)
    assert (row.changed, row.unmatched, row.remarks, row.failure) == ((), (), (), "")
    assert [output.max_abs_error for output in row.outputs] == [0]


def test_a_half_file_is_rounded(audited: Audit) -> None:
    row = row_of(audited, "half")
    assert (row.same, row.precision, row.weights) == (True, "fp16", "rounded to float16")
    assert row.is_compatible
    assert row.remarks == (
        "input x float16[2, 8] instead of x float32[2, 8]",
        "output y float16[unknown rank] instead of y float32[unknown rank]",
    )
    row = row_of(audited, "converted")
    assert (row.same, row.precision, row.weights) == (True, "fp16", "rounded to float16")
    assert row.remarks == ()
    row = row_of(audited, "brain")
    assert (row.same, row.precision, row.weights) == (True, "bf16", "rounded to bfloat16")


def test_a_quantised_file_is_the_same_model(audited: Audit) -> None:
    row = row_of(audited, "int8")
    assert (row.same, row.precision, row.weights) == (True, "int8", "quantised")
    assert row.outputs[0].rtol == 0.25


def test_a_drifted_quantised_file_is_found_though_its_outputs_agree(audited: Audit) -> None:
    row = row_of(audited, "int8-drifted")
    assert (row.same, row.weights, row.outputs[0].passed) == (False, "different", True)
    (weight,) = row.changed
    assert (weight.name, weight.counterpart) == ("first.weight", "codes")
    assert weight.max_abs_error == pytest.approx(0.05 * weight.largest, rel=0.1)


def test_a_drifted_weight_is_named(audited: Audit) -> None:
    row = row_of(audited, "weight")
    assert (row.same, row.weights, row.outputs[0].passed) == (False, "different", True)
    (weight,) = row.changed
    assert weight.name == weight.counterpart == "second.weight"
    assert weight.max_abs_error == pytest.approx(1e-5, rel=0.05)


def test_another_bias_of_zeros_is_not_the_counterpart_of_a_drifted_one(audited: Audit) -> None:
    row = row_of(audited, "bias")
    assert not row.same
    assert [weight.name for weight in row.changed] == ["first.bias"]


def test_a_drifted_node_is_found_by_the_outputs(audited: Audit) -> None:
    row = row_of(audited, "node")
    assert (row.same, row.weights) == (False, "equal")
    assert row.worst is not None
    assert (row.worst.name, row.worst.passed) == ("y", False)


def test_weights_of_other_names_are_matched_by_value(audited: Audit) -> None:
    row = row_of(audited, "renamed")
    assert (row.same, row.weights, row.total, row.unmatched) == (True, "equal", 4, ())
    assert row.remarks == (
        "input image float32[batch, 8] instead of x float32[2, 8]",
        "output scores float32[unknown rank] instead of y float32[unknown rank]",
    )


def test_fused_weights_leave_the_decision_to_the_outputs(audited: Audit) -> None:
    row = row_of(audited, "unfused")
    assert (row.same, row.weights, row.unmatched) == (True, "rearranged", ("factor",))
    assert [weight.counterpart for weight in row.changed] == ["double"]


def test_a_file_that_cannot_be_run_is_not_the_same_model(audited: Audit) -> None:
    row = row_of(audited, "unknown")
    assert (row.same, row.outputs) == (False, ())
    assert "Unknown" in row.failure


def test_the_audit_shows_each_file_and_its_faults(audited: Audit, folder: Path) -> None:
    lines = [line.replace(f"{folder}/", "") for line in str(audited).splitlines()]
    header, net, *_ = lines
    assert header.split() == [
        *("FILE", "PRECISION", "INTERFACE", "WEIGHTS", "OUTPUTS", "WORST", "MAX", "ERROR")
    ]
    assert net.split() == ["net.onnx", "fp32", "reference", "4", "-", "-", "-"]
    table = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[1:14]}
    assert table["external.onnx"] == "fp32 equal equal agree y 0"
    assert table["weight.onnx"].startswith("fp32 equal 1 of 4 differ agree y ")
    assert table["unknown.onnx"] == "fp32 equal equal failed - -"
    text = "\n".join(lines)
    assert "weight.onnx  " in text
    assert "weights that differ: second.weight by 1e-05, its values reach " in text
    assert "without a counterpart, so the outputs decide: factor" in text
    assert lines[-2].endswith(
        "by onnx's reference evaluator, on 8 random samples: --input NAME=FILE passes real ones"
    )
    assert lines[-1] == (
        "not the same model as net.onnx: bias.onnx, int8-drifted.onnx, node.onnx, unknown.onnx, "
        "weight.onnx"
    )
    document = audited.to_dict()
    assert (document["kind"], document["same"], len(document["rows"])) == ("audit", False, 13)


def test_the_first_file_may_be_the_coarser_one(folder: Path, tmp_path: Path) -> None:
    save_half(tmp_path / "half.onnx")
    audited = lab.audit([tmp_path / "half.onnx", folder / "net.onnx"])
    assert (audited.same, audited.rows[1].weights) == (True, "rounded to float16")
    assert audited.summary == f"the same model: {tmp_path / 'half.onnx'}, {folder / 'net.onnx'}"


def test_a_file_that_onnx_runtime_quantised(
    folder: Path, tmp_path: Path, loopback: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization", reason="it quantises the file")
    quantization.quantize_dynamic(folder / "net.onnx", tmp_path / "int8.onnx")
    monkeypatch.setenv("ENGINEBAY_BACKENDS", loopback)
    audited = lab.audit([folder / "net.onnx", tmp_path / "int8.onnx"])
    assert audited.engine == loopback
    row = audited.rows[1]
    assert (row.same, row.precision, row.weights) == (True, "int8", "quantised")
    assert (row.changed, row.unmatched) == ((), ())


@pytest.mark.parametrize(
    ("difference", "remark"),
    [
        ({"dims": (2, 9)}, "input x float32[2, 9] instead of x float32[2, 8]"),
        ({"dims": (2, 8, 1)}, "input x float32[2, 8, 1] instead of x float32[2, 8]"),
        ({"dtype": TensorProto.INT64}, "input x int64[2, 8] instead of x float32[2, 8]"),
        ({"ends": ("x", "y", "c")}, "outputs y, c instead of y"),
    ],
)
def test_a_file_with_other_inputs_or_outputs_is_another_model(
    folder: Path, tmp_path: Path, difference: dict[str, Any], remark: str
) -> None:
    audited = lab.audit([folder / "net.onnx", save_net(tmp_path / "other.onnx", **difference)])
    row = audited.rows[1]
    assert (row.same, row.is_compatible, row.weights) == (False, False, "equal")
    assert row.remarks[0] == remark
    assert (audited.engine, audited.samples, row.outputs) == ("", 0, ())
    assert audited.rows[1].file in audited.summary


def test_open_sizes_need_inputs(tmp_path: Path) -> None:
    opened = [save_net(tmp_path / f"{name}.onnx", dims=("n", 8)) for name in "ab"]
    with pytest.raises(InputError) as raised:
        lab.audit(opened)
    assert str(raised.value) == "cannot generate an input for x float32[n, 8]: its shape is dynamic"
    assert raised.value.hint == "--input x=1x8"
    inputs = {"x": np.linspace(-1, 1, 24, dtype="float32").reshape(3, 8)}
    audited = lab.audit(opened, inputs)
    assert (audited.same, audited.random) == (True, False)
    assert audited.rows[1].outputs[0].shape == (3, 4)


def test_inputs_that_do_not_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    files = [folder / "net.onnx", save_net(tmp_path / "copy.onnx")]
    with pytest.raises(InputError, match=r"^unknown input 'z': the model takes x"):
        lab.audit(files, {"z": np.ones((2, 8), "float32")})
    with pytest.raises(InputError, match=r"^input 'x' has size 3 in dimension 0 of \(3, 8\)"):
        lab.audit(files, {"x": np.ones((3, 8), "float32")})
    opened = [save_net(tmp_path / f"{name}.onnx", dims=("n", 8)) for name in "ab"]
    with pytest.raises(InputError, match=r"^unknown input 'z': the model takes x") as raised:
        lab.audit(opened, {"z": np.ones((2, 8), "float32")})
    assert raised.value.hint == "rename 'z' to 'x'"


def test_the_first_file_must_run(folder: Path, tmp_path: Path) -> None:
    files = [save_net(tmp_path / "net.onnx", activation="Unknown"), folder / "net.onnx"]
    with pytest.raises(ModelError) as raised:
        lab.audit(files)
    assert str(raised.value).startswith("'net.onnx' cannot be run: onnx's reference evaluator: ")
    assert raised.value.hint == "choose another engine: --backend NAME"


def test_outputs_that_never_change_show_nothing(tmp_path: Path) -> None:
    weights = {**WEIGHTS, "second.weight": np.zeros((6, 4), "float32")}
    files = [save_net(tmp_path / f"{name}.onnx", weights) for name in "ab"]
    with pytest.raises(InputError) as raised:
        lab.audit(files)
    assert str(raised.value) == (
        f"no output of '{files[0]}' changes between 8 samples: they would show nothing"
    )
    assert raised.value.hint == "pass real inputs: --input NAME=FILE.npy"


def test_files_that_cannot_be_audited(folder: Path, tmp_path: Path) -> None:
    net = folder / "net.onnx"
    (tmp_path / "cut.onnx").write_bytes(net.read_bytes()[:-40])
    (tmp_path / "net.pt2").write_bytes(b"")
    save_net(tmp_path / "external.onnx", external=True)
    next(path for path in tmp_path.iterdir() if path.suffix not in (".onnx", ".pt2")).unlink()
    mistakes: list[tuple[list[Path], type[EnginebayError], str]] = [
        ([net], UsageError, "expected at least two files, found 1"),
        ([net, net], UsageError, f"'{net}' is named twice"),
        ([net, tmp_path], UsageError, f"'{tmp_path}' is not an IR file: expected .onnx"),
        ([net, tmp_path / "none.onnx"], ModelSourceError, f"no file '{tmp_path / 'none.onnx'}'"),
        ([net, tmp_path / "cut.onnx"], ModelSourceError, f"'{tmp_path / 'cut.onnx'}' is damaged"),
        ([net, tmp_path / "external.onnx"], ModelSourceError, "'external.onnx': tensor 'first.wei"),
    ]
    for files, kind, start in mistakes:
        with pytest.raises(kind) as raised:
            lab.audit(files)
        assert str(raised.value).startswith(start)


POOL = "MaxPool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>"
NODES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "an attribute": (
        f"y = {POOL}(x)",
        "y = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(x)",
        ("MaxPool: ceil_mode 0 instead of 1",),
    ),
    "a default": (f"y = {POOL}(x)", f"y = {POOL[:-1]}, storage_order = 0>(x)", ()),
    "an operator": ("y = Relu(x)", "y = Clip(x, low)", ("a Clip more", "a Relu less")),
}


@pytest.mark.parametrize("case", NODES)
def test_nodes_that_differ_are_named_though_the_outputs_agree(case: str, tmp_path: Path) -> None:
    *bodies, nodes = NODES[case]
    paths = [tmp_path / f"{name}.onnx" for name in "ab"]
    for path, body in zip(paths, bodies, strict=True):
        weights = "<float low = {0}>" if "low" in body else ""
        text = f"g (float[1, 1, 9, 9] x) => (float[1, 1, h, w] y) {weights} {{ {body} }}"
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
        onnx.save(model, path)
    found = lab.audit(paths)
    assert found.same
    assert found.rows[1].nodes == nodes
    assert found.summary.startswith(
        "the same outputs, though nodes differ: " if nodes else "the same model: "
    )
