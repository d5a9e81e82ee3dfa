"""An ONNX file is cut at its tensors; the parts, run in order, compute the file's outputs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from enginebay.errors import ExportError, UsageError
from enginebay.ir import read_onnx
from enginebay.partition import split

#: A constant, an initializer, a tensor that is an output and is read too, a node with two outputs,
#: and a body that reads tensors of the graph.
TEXT = """
    (float[n, 4] x, float[n, 2] y, bool yes) => (float[n, 4] early, float[n, 2] out)
    <float[4] weight = {1, 2, 3, 4}> {
        two = Constant<value_float = 2.0>()
        a = Relu(x)
        early = Exp(a)
        b = Mul(early, weight)
        p, q = Split<axis = 1>(b)
        r = Mul(p, two)
        chosen = If(yes) <
            then_branch = yes_body () => (float[n, 2] t) { inner = Neg(q) t = Add(inner, r) },
            else_branch = no_body () => (float[n, 2] e) { e = Neg(y) }
        >
        out = Sub(chosen, r)
    }"""
TENSORS = ["a", "early", "b", "p", "q", "r", "chosen"]
FEED = {
    "x": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "y": np.ones((3, 2), np.float32),
}


def write(folder, text=TEXT):
    path = folder / "m.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}'), path)
    return read_onnx(path)


@pytest.fixture
def ir(tmp_path):
    return write(tmp_path)


def run(parts, feed):
    tensors = dict(feed)
    for part in parts:
        onnx.checker.check_model(part.path, full_check=True)
        evaluator = ReferenceEvaluator(str(part.path))
        outputs = evaluator.run(None, {spec.name: tensors[spec.name] for spec in part.inputs})
        tensors.update(zip(evaluator.output_names, outputs, strict=True))
    return tensors


@pytest.mark.parametrize("cuts", [*([name] for name in TENSORS), ["a", "b"], ["early", "r"]])
def test_onnx_file_can_be_cut_at_any_tensor(ir, tmp_path, cuts):
    parts = split(ir, cuts, tmp_path / "parts")
    assert len(parts) == len(cuts) + 1
    for cut, before, after in zip(cuts, parts, parts[1:], strict=False):
        assert cut in [spec.name for spec in before.outputs]
        assert cut in [spec.name for spec in after.inputs]
    for yes in (True, False):
        feed = FEED | {"yes": np.array(yes)}
        whole, outputs = run([ir], feed), run(parts, feed)
        for name in ("early", "out"):
            np.testing.assert_allclose(outputs[name], whole[name], rtol=1e-6)


def test_split_leaves_the_original_file_unchanged(ir, tmp_path):
    before = ir.path.read_bytes()
    split(ir, ["a"], tmp_path / "parts")
    assert ir.path.read_bytes() == before


def test_file_with_external_weights_can_be_cut(tmp_path):
    model = onnx.load(write(tmp_path).path)
    path = tmp_path / "external.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    ir = read_onnx(path)
    feed = FEED | {"yes": np.array(True)}
    parts = split(ir, ["early"], tmp_path / "parts")
    np.testing.assert_allclose(run(parts, feed)["out"], run([ir], feed)["out"])


DEPENDENT = "this tensor depends on another tensor of the same cut, or of a later cut in the list"
VARIABLE = "cut at a tensor that depends on the model's inputs"
OTHERS = "the graph can be cut at a, early, b, p, q, r, chosen"
IN_ORDER = "list the cuts in the order of the model, and use each mark's name once"


@pytest.mark.parametrize(
    ("cuts", "reason", "hint"),
    [
        (["earli"], "no such tensor", "did you mean 'early'?"),
        (["zzzz"], "no such tensor", OTHERS),
        (["x"], "it is an input of the model, with nothing before it", OTHERS),
        (["weight"], "it is an initializer, which is copied into every part", OTHERS),
        (["two"], "this tensor is a constant, which is copied into every part", VARIABLE),
        (["out"], "it is an output of the model, with nothing after it", OTHERS),
        (
            ["inner"],
            "it is in a subgraph (of an If, a Loop or a Scan), which cannot be cut",
            OTHERS,
        ),
        (["r", "a"], DEPENDENT, IN_ORDER),
    ],
)
def test_invalid_cuts_of_a_file_are_refused(ir, tmp_path, cuts, reason, hint):
    with pytest.raises(UsageError) as raised:
        split(ir, cuts, tmp_path / "parts")
    assert str(raised.value) == f"the graph cannot be cut at '{cuts[0]}': {reason}"
    assert raised.value.hint == hint


def test_cut_at_initializer_or_unread_output_is_refused(tmp_path):
    text = """(float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> {
        a = Mul(x, w) b, mask = Dropout(a) y = Exp(b)
    }"""
    ir = write(tmp_path, text)
    assert len(split(ir, ["b"], tmp_path / "parts")) == 2
    for name, reason in (
        ("w", "it is an initializer, which is copied into every part"),
        ("mask", "no node reads it"),
    ):
        with pytest.raises(
            UsageError, match=f"^the graph cannot be cut at '{name}': {reason}(\nhint: [^\n]+)?$"
        ):
            split(ir, [name], tmp_path / "parts")


def test_repeated_cut_at_a_tensor_is_refused(ir, tmp_path):
    with pytest.raises(UsageError, match=r"^the graph cannot be cut at 'a' twice$"):
        split(ir, ["a", "a"], tmp_path / "parts")


def test_cuts_without_a_node_between_are_refused(tmp_path):
    ir = write(tmp_path, "(float[4] x) => (float[2] y) { p, q = Split(x) y = Add(p, q) }")
    with pytest.raises(UsageError) as raised:
        split(ir, ["p", "q"], tmp_path / "parts")
    assert str(raised.value) == ("the graph cannot be cut: there is no node between 'p' and 'q'")
    assert raised.value.hint == "leave one of the cuts out, or cut at another tensor"


def test_cut_at_a_sequence_is_refused(tmp_path):
    text = """(float[2] x) => (float[2] y) <int64 zero = {0}> {
        a = Relu(x) both = SequenceConstruct(a, x) first = SequenceAt(both, zero) y = Exp(first)
    }"""
    with pytest.raises(ExportError) as raised:
        split(write(tmp_path, text), ["both"], tmp_path / "parts")
    assert str(raised.value) == (
        "the graph cannot be cut here: one part would pass 'both' to another, but 'both' is not a "
        "tensor"
    )
    assert raised.value.hint == "cut before or after this value"


def test_long_list_of_tensors_is_shortened_in_the_hint(tmp_path):
    chain = " ".join(f"t{n + 1} = Relu(t{n})" for n in range(20))
    ir = write(tmp_path, f"(float[2] t0) => (float[2] t20) {{ {chain} }}")
    with pytest.raises(UsageError) as raised:
        split(ir, ["elsewhere"], tmp_path / "parts")
    assert raised.value.hint == "the graph can be cut at t1, t2, t3, t4, …, t16, t17, t18, t19"
