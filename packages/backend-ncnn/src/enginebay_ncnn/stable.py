"""Operators that overflow in ncnn, computed by others that do not.

ncnn takes the exponential of what it gets, and its logarithm of 0 is not a number; of both it makes
powers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: The largest exponent of which a power is a product.
_POWERS = 64.0

#: The smallest float32 that has all its digits.
_TINY = 2.0**-126

#: Below it a softplus differs from its input by more than float32 shows.
_LEAST_THRESHOLD = 16.0


def replace_unstable(graph: Any) -> None:
    """Replace them in a TorchScript graph, in place."""
    import torch

    compiled: Any = torch.jit.CompilationUnit
    for kind, source_for in _SOURCES.items():
        for node in [*graph.findAllNodes(kind, recurse=True)]:
            inputs = [*node.inputs()]
            source = source_for(*inputs[1:])
            if source is None:
                continue
            graph.setInsertPoint(node)
            (output,) = graph.insertGraph(compiled(source).stable.graph, inputs)
            node.output().replaceAllUsesWith(output)
            node.destroy()


def _logsumexp(*_: Any) -> str:
    return """
def stable(x: Tensor, dim: List[int], keepdim: bool):
    total = (x - x.amax(dim, True)).exp().sum(dim, keepdim)
    return total.log() + x.amax(dim, keepdim)
"""


def _log_softmax(_: Any, dtype: Any) -> str | None:
    if dtype.toIValue() is not None:
        return None
    return """
def stable(x: Tensor, dim: int, dtype: Optional[int]):
    difference = x - x.amax([dim], True)
    return difference - difference.exp().sum([dim], True).log()
"""


#: log(1 + y) of small y too: what 1 + y rounds away, the quotient puts back (Kahan). The constant
#: makes 0 / 0 a 1.
_LOG1P = """
    sum = 1 + y
    log1p = y * ((sum.log() + 1e-30) / ((sum - 1) + 1e-30))
"""


def _softplus(_: Any, threshold: Any) -> str | None:
    known = threshold.toIValue()
    if known is None or known < _LEAST_THRESHOLD:
        return None
    return f"""
def stable(x: Tensor, beta: float, threshold: float):
    y = (x.abs() * -beta).exp()
    {_LOG1P}
    return x.relu() + log1p / beta
"""


def _log_sigmoid(*_: Any) -> str:
    return f"""
def stable(x: Tensor):
    y = (-(x.abs())).exp()
    {_LOG1P}
    return -((-x).relu()) - log1p
"""


def _power(exponent: Any) -> str | None:
    """Products and roots for powers of which pnnx makes the layer that is wrong at zero and below.

    Others are a logarithm and an exponential, with the sign of zero.
    """
    power = exponent.toIValue()
    if not isinstance(power, int | float) or power == 1 or abs(power) > _POWERS:
        return None
    kind = "int" if isinstance(power, int) else "float"
    if not power:
        return f"def stable(x: Tensor, power: {kind}):\n    return x.sign() * 0 + 1\n"
    halves = round(abs(power) * 2)
    if halves != abs(power) * 2:
        if power < 0:
            return None
        found = f"(x.clamp({_TINY}).log() * {power}).exp() * x.sign()"
        return f"def stable(x: Tensor, power: {kind}):\n    return {found}\n"
    lines, factor, factors = [], "x.sqrt()" if halves % 2 else "x", []
    steps = halves if halves % 2 else halves // 2
    while steps:
        lines.append(f"    x{steps} = {factor}")
        if steps % 2:
            factors.append(f"x{steps}")
        factor, steps = f"x{steps}.square()", steps // 2
    product = " * ".join(factors)
    found = f"({product}).reciprocal()" if power < 0 else product
    return "\n".join([f"def stable(x: Tensor, power: {kind}):", *lines, f"    return {found}", ""])


#: What returns the TorchScript of an operator, given its inputs behind the first; None where it
#: would compute something else. No line takes one tensor twice, which pnnx cannot count.
_SOURCES: dict[str, Callable[..., str | None]] = {
    "aten::logsumexp": _logsumexp,
    "aten::log_softmax": _log_softmax,
    "aten::softplus": _softplus,
    "aten::log_sigmoid": _log_sigmoid,
    "aten::pow": _power,
}
