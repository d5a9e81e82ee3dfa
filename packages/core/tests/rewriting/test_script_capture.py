"""TorchScript becomes a graph of ATen operators, in which all constants are folded."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from enginebay.errors import ConversionError
from enginebay.ir import quiet
from enginebay.rewriting import capture


def traced(function: Any, *inputs: Any) -> Any:
    class Model(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    with quiet():
        trace: Any = torch.jit.trace
        return torch.jit.freeze(trace(Model().eval(), inputs, check_trace=False))


def outputs_of(program: Any, *inputs: Any) -> Any:
    return program.module()(*(tensor.clone() for tensor in inputs))


def operators(program: Any) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


def written(x: Any) -> Any:
    """Write to a constant, to its views, and to an element of a list."""
    total = torch.zeros(2, 6)
    total[:, 1:3] = x[:, :2]
    left, right = total.chunk(2, 1)
    right.add_(1)
    left.mul_(x[:, :3])
    return total, total.t().contiguous()


def numbers(x: Any) -> Any:
    """Compute with sizes as a trace records them."""
    rows, columns = x.shape
    half = columns // 2
    return x[:, :half] * (rows**-0.5) + torch.arange(half) * (1 / rows)


def filled(x: Any) -> Any:
    """Write to a tensor whose sizes are computed from those of the input, and stay numbers."""
    half = x.shape[1] // 2
    total = torch.zeros(x.shape[0], half)
    total[0] = x[0, :half]
    return total.reshape(half, -1), x[:, :half]


def sizes(x: Any) -> Any:
    """Multiply sizes in place, as einops does."""
    count = x.shape[0] * 1
    count *= x.shape[1]
    rows = x.shape[0]
    rows *= 2
    return x.reshape(count), x.reshape(rows, -1)


def repeated(x: Any) -> Any:
    """Repeat by sizes and a constant, which a trace records as tensors."""
    counts = torch.tensor([2, 0, 1, 1, 0, 3, 1, 1])
    return x.repeat_interleave(x.shape[0], 0), x.repeat_interleave(counts, 1)


def with_lengths(x: torch.Tensor) -> torch.Tensor:
    rows: list[int] = (torch.tensor([x.shape[0]]) * 2).tolist()
    length = torch.tensor([x.shape[1]], dtype=torch.float32)
    return (x * length + torch.tensor([1, 2] * 4)).reshape(rows[0], -1)


def of_middle_sizes(x: torch.Tensor) -> torch.Tensor:
    sizes = x.shape[1 : x.dim()] + [1]  # noqa: RUF005  # TorchScript has no starred lists
    return x.reshape([-1] + sizes[:1] + list(sizes[1:2]))  # noqa: RUF005  # likewise


def scripted(x: Any) -> Any:
    """Make tensors of lists and lists of tensors, which only a script records."""
    with quiet():
        return torch.jit.script(with_lengths)(x), torch.jit.script(of_middle_sizes)(x)


def written_twice(x: Any) -> Any:
    """Write constants and then inputs to a constant."""
    total = torch.tensor([1.0, 2.0, 3.0, 4.0])
    total += 1
    before = total * 2
    total *= x[0, :4]
    return before, total


def nested(x: Any) -> Any:
    return x + 1, (x * 2, [x.argmax(-1), x.argmin(-1)])


def pairs(x: Any) -> Any:
    return torch.view_as_real(torch.fft.rfft(x)).sum(-1), x.to(torch.float64).int()


def of_unsafe_pieces(x: Any) -> Any:
    y = x * 2.0
    y.unsafe_chunk(2, -1)[1].mul_(3.0)
    y.unsafe_split(1, 0)[1].add_(x[:1])
    return y


@pytest.mark.parametrize(
    "function",
    [written, written_twice, filled, numbers, sizes, repeated, scripted, pairs, of_unsafe_pieces],
)
def test_captured_program_computes_the_same_as_the_script(function: Any) -> None:
    x, other = torch.randn(2, 8), torch.randn(2, 8)
    with quiet():
        script = traced(function, x)
    program = capture(script, (x,))
    for given in (x, other):
        results, expected = outputs_of(program, given), script(given.clone())
        for result, value in zip(
            torch.utils._pytree.tree_leaves(results),
            [*expected] if isinstance(expected, tuple) else [expected],
            strict=True,
        ):
            torch.testing.assert_close(result, value)


def test_nested_outputs_are_flattened_into_a_tuple() -> None:
    x = torch.randn(2, 3)
    results = outputs_of(capture(traced(nested, x), (x,)), x)
    for result, value in zip(results, (x + 1, x * 2, x.argmax(-1), x.argmin(-1)), strict=True):
        torch.testing.assert_close(result, value)


def test_values_that_inputs_do_not_affect_are_folded() -> None:
    weight = torch.randn(3, 4)
    script = traced(lambda x: x @ (weight.t() * 2).softmax(0).sin(), torch.randn(2, 4))
    assert operators(capture(script, (torch.randn(2, 4),))) == ["aten.matmul.default"]


def test_composite_operators_are_not_decomposed() -> None:
    def model(x: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    script = traced(model, torch.randn(1, 3, 4))
    program = capture(script, (torch.randn(1, 3, 4),))
    assert operators(program) == ["aten.scaled_dot_product_attention.default"]


def test_resize_operators_are_not_decomposed() -> None:
    def resized(x: Any) -> Any:
        corners = torch.nn.functional.interpolate(x, (5, 7), mode="bilinear", align_corners=True)
        return corners, torch.nn.functional.interpolate(x, (5, 7), mode="bicubic")

    x = torch.rand(1, 2, 4, 4)
    program = capture(traced(resized, x), (x,))
    for result, expected in zip(outputs_of(program, x), resized(x), strict=True):
        torch.testing.assert_close(result, expected)
    # torch.export always decomposes the overload with one scale factor per side.
    with quiet():
        decomposed = program.run_decompositions({})
    assert operators(program) == ["aten.upsample_bilinear2d.vec", "aten.upsample_bicubic2d.vec"]
    assert operators(decomposed) == operators(program)


def test_branch_on_a_constant_is_resolved() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.twice = True

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.twice and x.shape[0] > 1:  # noqa: SIM108 - TorchScript must see a branch
                y = x * 2
            else:
                y = x
            return y

    with quiet():
        script = torch.jit.freeze(torch.jit.script(Model().eval()))
    x = torch.randn(2)
    torch.testing.assert_close(outputs_of(capture(script, (x,)), x), (x * 2,))


@pytest.mark.parametrize(
    "source",
    ["if bool(x.sum() > 0):\n            x = -x\n", "x = x[: int(x.sum())]\n"],
    ids=["branch", "size"],
)
def test_sizes_and_branches_that_depend_on_inputs_are_refused(source: str, tmp_path: Any) -> None:
    text = f"""
import torch
class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        {source}        return x
"""
    namespace = load(text, tmp_path)
    with quiet():
        script = torch.jit.freeze(torch.jit.script(namespace.Model().eval()))
    with pytest.raises(ConversionError, match="depends on the inputs"):
        capture(script, (torch.ones(3),))


def load(text: str, folder: Any) -> Any:
    """Import a module of this source from a file, since TorchScript reads the file."""
    import importlib.util

    file = folder / "model.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("model", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_written_constant_is_reset_for_every_call() -> None:
    x, total = torch.randn(2), torch.zeros(2)
    with quiet():
        script = traced(lambda x: total.add_(x) * 2, x)
    module = capture(script, (x,)).module()
    first, second = module(x), module(x)
    torch.testing.assert_close(first, second)


def test_weights_are_not_copied() -> None:
    weight = torch.randn(64, 64)
    script = traced(lambda x: x @ weight, torch.randn(1, 64))
    addresses = {
        node.output().toIValue().data_ptr()
        for node in script.graph.findAllNodes("prim::Constant")
        if node.output().type().kind() == "TensorType"
    }
    program = capture(script, (torch.randn(1, 64),))
    assert {tensor.data_ptr() for tensor in program.state_dict.values()} == addresses


def test_nodes_record_their_source_line() -> None:
    program = capture(traced(numbers, torch.randn(2, 8)), (torch.randn(2, 8),))
    traces = [node.meta.get("stack_trace") or "" for node in program.graph.nodes]
    assert any("test_script_capture.py" in trace for trace in traces)


def test_source_line_in_a_folder_with_a_space_is_recorded() -> None:
    module: dict[str, Any] = {}
    exec(compile("def double(x):\n    return x * 2", "/my models/net.py", "exec"), module)
    program = capture(traced(module["double"], torch.randn(2)), (torch.randn(2),))
    traces = [node.meta.get("stack_trace") or "" for node in program.graph.nodes]
    assert any('File "/my models/net.py", line 2, in double' in trace for trace in traces)
