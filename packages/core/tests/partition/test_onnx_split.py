"""Graphs are cut at marks; the parts, run in order, compute the model's outputs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from packages.core.tests.exports import export
from torch import nn

import enginebay as eb
from enginebay.errors import ExportError, UsageError
from enginebay.ir.onnx_file import read_onnx
from enginebay.operations.rewrite_model import export_patch
from enginebay.operations.rewriter_sets import target_of
from enginebay.partition import mark_nodes, split

both = pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])


def exported(model, args, path, exporter="dynamo", *sets, **options):
    patch = export_patch(target_of(None), [mark_nodes(), *sets])
    model = model.eval()
    return export(model, args, path=path, exporter=exporter, patch=patch, **options)


def run(parts, **feed):
    """Run the parts in order, and return every tensor by its name."""
    tensors = {name: np.asarray(value) for name, value in feed.items()}
    for part in parts:
        evaluator = ReferenceEvaluator(str(part.path))
        outputs = evaluator.run(None, {spec.name: tensors[spec.name] for spec in part.inputs})
        tensors.update(zip(evaluator.output_names, outputs, strict=True))
    return tensors


def specs(part):
    return [s.describe() for s in part.inputs], [s.describe() for s in part.outputs]


def nodes(part):
    return [node.op_type for node in onnx.load(part.path).graph.node]


class Skip(nn.Module):
    """A skip connection over both cuts, two inputs, outputs of the first and the last part."""

    def __init__(self, width=6):
        super().__init__()
        self.first, self.second = nn.Linear(4, width), nn.Linear(width, 4)

    def forward(self, x, y):
        early = x.relu()
        neck = eb.mark(self.first(early), "neck")
        head = eb.mark(self.second(neck.sigmoid()), "head")
        return {"late": head.exp() + early + y, "early": early * 2}


@both
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_skip_connection_is_passed_over_two_cuts(tmp_path, exporter, batch):
    model, x, y = Skip(), torch.randn(2, 4), torch.randn(2, 4)
    dynamic = {"x": {0: ("batch", 1, 8)}, "y": {0: "batch"}}
    whole = exported(model, (x, y), tmp_path / "m.onnx", exporter, dynamic=dynamic)
    parts = split(whole, ["neck", "head"], tmp_path / "parts")
    early = parts[0].outputs[0].name
    assert specs(parts[0])[0] == ["x float32[batch, 4]"]
    assert {s.name for s in parts[0].outputs} == {early, "neck", "early"}
    assert [s.name for s in parts[1].inputs] == ["neck"]
    assert [s.name for s in parts[1].outputs] == ["head"]
    assert [s.name for s in parts[2].inputs] == ["y", early, "head"]
    assert [s.name for s in parts[2].outputs] == ["late"]
    assert all(isinstance(s.dims[0], str) for p in parts for s in (*p.inputs, *p.outputs))
    x, y = torch.randn(batch, 4), torch.randn(batch, 4)
    outputs, expected = run(parts, x=x, y=y), model(x, y)
    for name in ("late", "early"):
        np.testing.assert_allclose(outputs[name], expected[name].detach(), rtol=1e-5, atol=1e-6)


@both
def test_boundaries_have_the_names_and_dtypes_of_marks(tmp_path, exporter):
    whole = exported(Skip(), (torch.randn(2, 4), torch.randn(2, 4)), tmp_path / "m.onnx", exporter)
    first, second = split(whole, ["neck"], tmp_path / "parts")
    assert "neck float32[2, 6]" in specs(first)[1]
    assert "neck float32[2, 6]" in specs(second)[0]
    assert "Mark" not in [*nodes(first), *nodes(second)]  # that of "head" is removed too
    assert (first.kind, first.exporter, first.opset) == ("onnx", whole.exporter, whole.opset)


def test_without_cuts_the_marks_are_removed(tmp_path):
    whole = exported(Skip(), (torch.randn(2, 4), torch.randn(2, 4)), tmp_path / "m.onnx")
    assert "Mark" in nodes(whole)
    (part,) = split(whole, [], tmp_path / "parts")
    assert "Mark" not in nodes(part)
    assert {each.domain for each in onnx.load(part.path).opset_import} == {""}
    assert specs(part) == specs(whole)


class Shared(nn.Module):
    """One function on several levels: its inputs are cut together."""

    def forward(self, x):
        return tuple(head(level.relu()) for level in (x, x * 2, x + 3))


def head(x):
    return x.exp() + 1


@pytest.mark.one_in(2)
@both
@pytest.mark.parametrize("cut", ["head", "head:input", "head:input_0", "head:output"])
def test_a_marked_function_is_cut_before_or_after(tmp_path, exporter, cut):
    sets = eb.marks({f"{__name__}.head": "head"})
    x = torch.randn(2, 3)
    whole = exported(Shared(), x, tmp_path / "m.onnx", exporter, sets)
    if cut == "head:output":
        with pytest.raises(UsageError, match="no node after 'head:output'"):
            split(whole, [cut], tmp_path / "parts")
        return
    parts = split(whole, [cut], tmp_path / "parts")
    names = ["head:input_0", "head:input_0_1", "head:input_0_2"]
    assert [s.name for s in parts[1].inputs] == names
    assert nodes(parts[0]).count("Exp") == 0
    assert nodes(parts[1]).count("Exp") == 3
    outputs = run(parts, x=x)
    for name, expected in zip([s.name for s in whole.outputs], Shared()(x), strict=True):
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-5)


@both
def test_cut_at_a_model_output_preserves_outputs(tmp_path, exporter):
    class Model(nn.Module):
        def forward(self, x):
            y = eb.mark(x.relu(), "y")
            return y, eb.mark(y.exp() * 2, "z")

    x = torch.randn(3)
    whole = exported(Model(), x, tmp_path / "m.onnx", exporter)
    parts = split(whole, ["y"], tmp_path / "parts")
    outputs = run(parts, x=x)
    for name, expected in zip([s.name for s in whole.outputs], Model()(x), strict=True):
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-5)


@both
def test_cut_preserves_shapes_computed_from_dynamic_sizes(tmp_path, exporter):
    class Model(nn.Module):
        def forward(self, x):
            y = eb.mark(x.reshape(x.shape[0] * 2, -1).relu(), "y")
            return y.reshape(x.shape[0], -1) * 2

    model = Model()
    dynamic = {"x": {0: ("batch", 1, 8)}}
    whole = exported(model, torch.randn(2, 4), tmp_path / "m.onnx", exporter, dynamic=dynamic)
    parts = split(whole, ["y"], tmp_path / "parts")
    for batch in (1, 3, 8):
        x = torch.randn(batch, 4)
        (name,) = (s.name for s in whole.outputs)
        np.testing.assert_allclose(run(parts, x=x)[name], model(x))
        (y,) = (s for s in parts[0].outputs if s.name == "y")
        assert all(isinstance(d, str) or d == 2 for d in y.dims or ())


def test_each_part_contains_only_its_own_weights(tmp_path, monkeypatch):
    monkeypatch.setattr("enginebay.exporters.onnx_export.INLINE_WEIGHT_BYTES", 0)
    model, args = Skip(300), (torch.randn(2, 4), torch.randn(2, 4))
    whole = exported(model, args, tmp_path / "m.onnx")
    assert len(whole.files) == 2
    parts = split(whole, ["neck"], tmp_path / "parts")
    assert [file.name for part in parts for file in part.files[1:]] == [
        "part_0.onnx.data",
        "part_1.onnx.data",
    ]
    first, second = (set(_weights(part)) for part in parts)
    assert first.isdisjoint(second)
    assert first | second == set(_weights(whole))
    for path in whole.files:
        path.unlink()  # the parts do not refer to it
    outputs = run(parts, x=args[0], y=args[1])
    np.testing.assert_allclose(outputs["late"], model(*args)["late"].detach(), rtol=1e-5, atol=1e-6)


def _weights(ir):
    return [each.name for each in onnx.load(ir.path, load_external_data=False).graph.initializer]


def plain(tmp_path, graph_nodes, inputs, outputs, **options):
    """A hand-written model; marks are nodes of the domain ``enginebay``."""
    values = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in names]
        for names in (inputs, outputs)
    ]
    weights = [numpy_helper.from_array(np.ones(2, np.float32), "w")]
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("enginebay", 1)]
    imports += [helper.make_opsetid("mystery", 1)]
    imports += [helper.make_opsetid(f.domain, 1) for f in options.get("functions", ())]
    graph = helper.make_graph(graph_nodes, "g", *values, weights)
    model = helper.make_model(graph, opset_imports=imports, ir_version=10, **options)
    onnx.save(model, tmp_path / "plain.onnx")
    return read_onnx(tmp_path / "plain.onnx")


def _mark(source, target, name):
    node = helper.make_node("Mark", [source], [target], domain="enginebay")
    node.attribute.append(helper.make_attribute("name", name))
    return node


def op(kind, *names):
    return helper.make_node(kind, list(names[:-1]), [names[-1]])


def test_constants_are_in_every_part_that_reads_them(tmp_path):
    body = [
        op("Exp", "w", "c"),
        op("Add", "x", "c", "a"),
        _mark("a", "m", "cut"),
        op("Mul", "m", "c", "y"),
    ]
    parts = split(plain(tmp_path, body, ["x"], ["y"]), ["cut"], tmp_path / "parts")
    assert [nodes(part) for part in parts] == [["Exp", "Add"], ["Exp", "Mul"]]
    assert [_weights(part) for part in parts] == [["w"], ["w"]]
    outputs = run(parts, x=np.zeros(2, np.float32))
    np.testing.assert_allclose(outputs["y"], np.exp([2.0, 2.0]), rtol=1e-6)


def test_random_numbers_are_drawn_once(tmp_path):
    draw = helper.make_node("RandomNormal", [], ["r"], shape=[2])
    body = [draw, op("Add", "x", "r", "a"), _mark("a", "m", "cut"), op("Sub", "m", "r", "y")]
    parts = split(plain(tmp_path, body, ["x"], ["y"]), ["cut"], tmp_path / "parts")
    assert [nodes(part) for part in parts] == [["RandomNormal", "Add"], ["Sub"]]
    np.testing.assert_allclose(run(parts, x=np.ones(2, np.float32))["y"], [1, 1], atol=1e-5)


def test_subgraphs_can_read_a_cut_tensor(tmp_path):
    branch = [
        helper.make_graph([_mark("m", f"i{k}", "inside"), op(k, f"i{k}", f"o{k}")], k, [], [out])
        for k, out in (
            (k, helper.make_tensor_value_info(f"o{k}", TensorProto.FLOAT, [2]))
            for k in ("Neg", "Abs")
        )
    ]
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])
    body = [
        op("Relu", "x", "a"),
        _mark("a", "m", "cut"),
        op("ReduceSum", "x", "s"),
        helper.make_node("Cast", ["s"], ["b"], to=TensorProto.BOOL),
        op("Squeeze", "b", "c"),
        choice,
    ]
    whole = plain(tmp_path, body, ["x"], ["y"])
    parts = split(whole, ["cut"], tmp_path / "parts")
    assert [s.name for s in parts[1].inputs] == ["cut", "c"]
    assert run(parts, x=np.ones(2, np.float32))["y"].tolist() == [-1, -1]
    assert run(parts, x=np.zeros(2, np.float32))["y"].tolist() == [0, 0]
    with pytest.raises(UsageError, match="cannot be cut at 'inside': its marks are cut"):
        split(whole, ["inside"], tmp_path / "parts")


def test_local_functions_are_copied_into_their_parts(tmp_path):
    function = helper.make_function(
        "mine", "Twice", ["a"], ["b"], [op("Add", "a", "a", "b")], [helper.make_opsetid("", 20)]
    )
    twice = helper.make_node("Twice", ["m"], ["y"], domain="mine")
    body = [op("Relu", "x", "a"), _mark("a", "m", "cut"), twice]
    parts = split(
        plain(tmp_path, body, ["x"], ["y"], functions=[function]), ["cut"], tmp_path / "parts"
    )
    assert run(parts, x=np.ones(2, np.float32))["y"].tolist() == [2, 2]


def test_mark_named_like_a_tensor_is_renamed(tmp_path):
    body = [op("Relu", "x", "a"), _mark("a", "m", "x"), op("Exp", "m", "y")]
    parts = split(plain(tmp_path, body, ["x"], ["y"]), ["x"], tmp_path / "parts")
    assert [s.name for s in parts[1].inputs] == ["x_1"]
    assert run(parts, x=np.zeros(2, np.float32))["y"].tolist() == [1, 1]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_graphs_compute_the_same_in_parts(tmp_path_factory, data):
    """Random graphs with a chain of marks through them, and skips from anywhere to anywhere."""
    folder = tmp_path_factory.mktemp("random")
    count = data.draw(st.integers(1, 4), "cuts")
    values, body, chain = ["x", "y"], [], "x"
    for cut in range(count + 1):
        for index in range(data.draw(st.integers(1, 3), "nodes")):
            other = data.draw(st.sampled_from([*values, "w"]), "other")
            body.append(
                op(
                    data.draw(st.sampled_from(["Add", "Mul", "Max"])),
                    chain,
                    other,
                    f"v{cut}_{index}",
                )
            )
            chain = f"v{cut}_{index}"
            values.append(chain)
        if cut < count:
            body.append(_mark(chain, f"m{cut}", f"cut{cut}"))
            chain = f"m{cut}"
            values.append(chain)
    results = list(dict.fromkeys([chain, data.draw(st.sampled_from(values[2:]), "result")]))
    whole = plain(folder, body, ["x", "y"], results)
    x, y = np.float32([1.5, -2]), np.float32([0.5, 3])
    (single,) = split(whole, [], folder / "one")
    parts = split(whole, [f"cut{cut}" for cut in range(count)], folder / "parts")
    assert len(parts) == count + 1
    expected, outputs = run([single], x=x, y=y), run(parts, x=x, y=y)
    for name in results:
        np.testing.assert_array_equal(outputs[name], expected[name])


def chain(tmp_path):
    body = [
        *(op("Relu", "x", "a"), _mark("a", "m", "neck")),
        *(op("Exp", "m", "b"), _mark("b", "n", "head")),
        op("Neg", "n", "y"),
    ]
    return plain(tmp_path, body, ["x"], ["y"])


@pytest.mark.parametrize(
    ("cuts", "message", "hint"),
    [
        (
            ["nek"],
            "the graph cannot be cut at 'nek': its marks are neck, head",
            "did you mean 'neck'?",
        ),
        (
            ["tail"],
            "the graph cannot be cut at 'tail': its marks are neck, head",
            "mark a tensor in the model: x = enginebay.mark(x, name)",
        ),
        (["neck", "neck"], "the graph cannot be cut at 'neck' twice", None),
        (
            ["head", "neck"],
            (
                "the graph cannot be cut at 'head': this tensor depends on another tensor of "
                "the same cut, or of a later cut in the list"
            ),
            "list the cuts in the order of the model, and use each mark's name once",
        ),
    ],
)
def test_invalid_cuts_are_refused(tmp_path, cuts, message, hint):
    with pytest.raises(UsageError) as caught:
        split(chain(tmp_path), cuts, tmp_path / "parts")
    assert (str(caught.value), caught.value.hint) == (message, hint)
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize(
    ("body", "cuts", "where"),
    [
        ([_mark("x", "m", "a"), op("Exp", "m", "y")], ["a"], "before 'a'"),
        ([op("Exp", "x", "m"), _mark("m", "y", "a")], ["a"], "after 'a'"),
        (
            [op("Exp", "x", "b"), _mark("b", "m", "a"), _mark("m", "n", "b"), op("Neg", "n", "y")],
            ["a", "b"],
            "between 'a' and 'b'",
        ),
    ],
)
def test_cut_that_leaves_a_part_empty_is_refused(tmp_path, body, cuts, where):
    with pytest.raises(UsageError) as caught:
        split(plain(tmp_path, body, ["x"], ["y"]), cuts, tmp_path / "parts")
    assert str(caught.value) == f"the graph cannot be cut: there is no node {where}"
    assert caught.value.hint == "leave one of the cuts out, or cut at another tensor"


def test_cut_at_a_constant_is_refused(tmp_path):
    body = [op("Exp", "x", "b"), _mark("w", "m", "a"), op("Mul", "b", "m", "y")]
    with pytest.raises(
        UsageError, match="'a': this tensor is a constant, which is copied into every part"
    ):
        split(plain(tmp_path, body, ["x"], ["y"]), ["a"], tmp_path / "parts")


def test_cut_of_a_model_without_marks_is_refused(tmp_path):
    whole = exported(nn.ReLU(), torch.ones(1, 2), tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="cannot be cut at 'neck': it has no marks"):
        split(whole, ["neck"], tmp_path / "parts")


def test_repeated_mark_in_a_row_is_refused(tmp_path):
    body = [op("Exp", "x", "a"), _mark("a", "m", "c"), op("Neg", "m", "b"), _mark("b", "n", "c")]
    with pytest.raises(
        UsageError, match="cut at 'c': this tensor depends on another tensor of the same cut"
    ):
        split(
            plain(tmp_path, [*body, op("Abs", "n", "y")], ["x"], ["y"]), ["c"], tmp_path / "parts"
        )


def test_cut_at_a_tensor_of_unknown_dtype_is_refused(tmp_path):
    unknown = helper.make_node("Mystery", ["x"], ["a"], domain="mystery")
    whole = plain(tmp_path, [unknown, _mark("a", "m", "c"), op("Exp", "m", "y")], ["x"], ["y"])
    with pytest.raises(ExportError) as caught:
        split(whole, ["c"], tmp_path / "parts")
    assert str(caught.value) == "the graph cannot be cut at 'c': its dtype is unknown"
    assert caught.value.hint == "cut before or after this tensor, or choose the other exporter"


def test_a_sparse_initializer_is_refused(tmp_path):
    ir = plain(tmp_path, [op("Add", "x", "s", "y")], ["x"], ["y"])
    model = onnx.load(ir.path)
    values = numpy_helper.from_array(np.ones(1, np.float32), "s")
    indices = numpy_helper.from_array(np.zeros(1, np.int64), "i")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))
    onnx.save(model, ir.path)
    with pytest.raises(ExportError) as caught:
        split(read_onnx(ir.path), [], tmp_path / "parts")
    assert str(caught.value) == "the graph cannot be cut: initializer 's' is sparse"
    assert caught.value.hint == "store the initializer as a dense tensor"
