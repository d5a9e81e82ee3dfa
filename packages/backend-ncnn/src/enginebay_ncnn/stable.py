"""Operators that overflow in ncnn, computed by others that do not.

ncnn takes the exponential of what it gets, and its logarithm of 0 is not a number.
"""

from __future__ import annotations

from typing import Any

#: Below it a softplus differs from its input by more than float32 shows.
_LEAST_THRESHOLD = 16.0


def replace_unstable(graph: Any) -> None:
    """Replace them in a TorchScript graph, in place."""
    import torch

    compiled: Any = torch.jit.CompilationUnit
    for kind, source in _SOURCES.items():
        for node in [*graph.findAllNodes(kind, recurse=True)]:
            inputs = [*node.inputs()]
            if not _is_known(kind, inputs):
                continue
            graph.setInsertPoint(node)
            (output,) = graph.insertGraph(compiled(source).stable.graph, inputs)
            node.output().replaceAllUsesWith(output)
            node.destroy()


def _is_known(kind: str, inputs: list[Any]) -> bool:
    """Return True if the replacement computes the same."""
    if kind == "aten::log_softmax":
        return inputs[2].toIValue() is None  # no other dtype
    if kind == "aten::softplus":
        threshold = inputs[2].toIValue()
        return threshold is not None and threshold >= _LEAST_THRESHOLD
    return True


#: log(1 + y) of small y too: what 1 + y rounds away, the quotient puts back (Kahan). The constant
#: makes 0 / 0 a 1.
_LOG1P = """
    sum = 1 + y
    log1p = y * ((sum.log() + 1e-30) / ((sum - 1) + 1e-30))
"""

#: TorchScript by operator. No line takes one tensor twice, which pnnx cannot count.
_SOURCES = {
    "aten::logsumexp": """
def stable(x: Tensor, dim: List[int], keepdim: bool):
    total = (x - x.amax(dim, True)).exp().sum(dim, keepdim)
    return total.log() + x.amax(dim, keepdim)
""",
    "aten::log_softmax": """
def stable(x: Tensor, dim: int, dtype: Optional[int]):
    difference = x - x.amax([dim], True)
    return difference - difference.exp().sum([dim], True).log()
""",
    "aten::softplus": f"""
def stable(x: Tensor, beta: float, threshold: float):
    y = (x.abs() * -beta).exp()
    {_LOG1P}
    return x.relu() + log1p / beta
""",
    "aten::log_sigmoid": f"""
def stable(x: Tensor):
    y = (-(x.abs())).exp()
    {_LOG1P}
    return -((-x).relu()) - log1p
""",
}
