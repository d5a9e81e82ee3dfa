"""Marks have no effect until a graph is cut; then each one is a node."""

from __future__ import annotations

import onnx
import pytest
import torch
from packages.core.tests.rewriting.contexts import rewrite
from torch import nn

import enginebay as eb
from enginebay.errors import RewriterError
from enginebay.partition import mark_nodes

both = pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])


class Marked(nn.Module):
    def forward(self, x):
        x = eb.mark(x.relu(), "neck")
        return eb.mark(x.squeeze(0), "flat") + 1


class Head:
    """A class of a model's package with a method to mark."""

    def forward(self, pair, *, scale):
        first, second = pair
        return {"sum": first + second, "rest": [first * scale, 3]}


def twice(x):
    return x * 2


class WithHead(nn.Module):
    def forward(self, x, y):
        outputs = Head().forward((x.relu(), y.exp()), scale=x.sum())
        return outputs["sum"], twice(outputs["rest"][0])


HEAD = f"{__name__}.Head.forward"
TWICE = f"{__name__}.twice"


def mark_names(exported):
    """Return the names of the mark nodes, in the order of the graph."""
    nodes = [n for n in onnx.load(exported.path).graph.node if n.op_type == "Mark"]
    assert all(node.domain == "enginebay" for node in nodes)
    return [onnx.helper.get_node_attr_value(node, "name").decode() for node in nodes]


def test_mark_returns_the_tensor_itself():
    x = torch.rand(2)
    assert eb.mark(x, "x") is x


@both
def test_export_without_a_cut_has_no_mark_nodes(export, exporter):
    x = torch.randn(1, 3)
    exported = export(Marked(), x, exporter=exporter)
    assert not any("Mark" in node for node in exported.nodes)
    torch.testing.assert_close(exported.run(x)[0], Marked()(x))
    with_functions = export(WithHead(), (x, x), eb.marks({HEAD: "head"}), exporter=exporter)
    assert not any("Mark" in node for node in with_functions.nodes)


@both
def test_mark_nodes_makes_each_mark_a_node(export, exporter):
    exported = export(Marked(), torch.randn(1, 3), mark_nodes(), exporter=exporter)
    assert mark_names(exported) == ["neck", "flat"]
    assert exported.nodes[1] == "enginebay::Mark"
    assert exported.opsets["enginebay"] == 1
    assert exported.report.fired["enginebay.partition.mark_function.Mark"] == 2


@both
def test_the_dtype_and_the_rank_survive_a_mark(export, exporter):
    class Integers(nn.Module):
        def forward(self, x):
            return eb.mark(x.argmax(dim=1), "ids").flatten() * 2

    exported = export(Integers(), torch.randn(2, 3, 4), mark_nodes(), exporter=exporter)
    output = onnx.load(exported.path).graph.output[0].type.tensor_type
    assert output.elem_type == onnx.TensorProto.INT64
    assert [dim.dim_value for dim in output.shape.dim] == [8]


@both
def test_dynamic_dimension_survives_a_mark(export, exporter):
    class Flat(nn.Module):
        def forward(self, x):
            return eb.mark(x.relu(), "neck").flatten(1)

    exported = export(
        Flat(),
        torch.randn(2, 3, 4),
        mark_nodes(),
        exporter=exporter,
        dynamic={"x": {0: ("batch", 1, 8)}},
    )
    (output,) = onnx.load(exported.path).graph.output
    assert output.type.tensor_type.shape.dim[0].dim_param


@both
def test_marks_of_functions_name_their_inputs_and_outputs(export, exporter):
    sets = eb.marks({HEAD: "head", TWICE: "twice"}), mark_nodes()
    exported = export(WithHead(), (torch.rand(3), torch.rand(3)), *sets, exporter=exporter)
    assert sorted(mark_names(exported)) == [
        *("head:input_0", "head:input_1", "head:input_2", "head:output_0", "head:output_1"),
        *("twice:input_0", "twice:output_0"),
    ]
    assert exported.report.fired[HEAD] >= 1


def test_marks_do_not_change_values_in_a_context():
    x, y = torch.rand(3), torch.rand(3)
    expected = WithHead()(x, y)
    sets = [eb.marks({HEAD: "head", TWICE: "twice"}), mark_nodes()]
    with rewrite(backend="any", rewriters=sets):
        outputs = WithHead()(x, y)
    assert all(torch.equal(a, b) for a, b in zip(outputs, expected, strict=True))
    assert eb.mark(x, "x") is x


@pytest.mark.parametrize("exporter", ["jit.trace", "torch.export"])
def test_other_irs_ignore_marks(export, exporter):
    x = torch.randn(1, 3)
    exported = export(Marked(), x, mark_nodes(), exporter=exporter)
    torch.testing.assert_close(exported.run(x)[0], Marked()(x))
    assert exported.report.not_served == ()


@pytest.mark.parametrize(("x", "name"), [([1], "neck"), (torch.rand(1), ""), (torch.rand(1), 3)])
def test_mark_refuses_non_tensors_and_invalid_names(x, name):
    with rewrite(backend="any", rewriters=[mark_nodes()]), pytest.raises(RewriterError) as caught:
        eb.mark(x, name)
    assert str(caught.value) == (
        f"mark() expected a tensor and a name, found ({type(x).__name__}, {name!r})"
    )


def test_marked_function_that_is_misspelt_is_refused():
    marks = eb.marks({f"{__name__}.twise": "x"})
    with (
        pytest.raises(RewriterError, match=r'did you mean "twice"\?'),
        rewrite(backend="any", rewriters=[marks]),
    ):
        pass


def test_marks_refuse_a_function_name_without_dots():
    with pytest.raises(RewriterError, match='rewrites "head", which is not a dotted name'):
        eb.marks({"head": "head"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a.b": ""}, "marks() expected a name for \"a.b\", found ''"),
        ({"a.b": 3}, 'marks() expected a name for "a.b", found 3'),
        (["a.b"], "marks() expected a mapping from functions to names, found a list"),
    ],
)
def test_marks_without_a_name_are_refused(given, message):
    with pytest.raises(RewriterError) as caught:
        eb.marks(given)
    assert str(caught.value) == message
