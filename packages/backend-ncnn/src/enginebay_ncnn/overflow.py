"""Replace operators that overflow in ncnn by formulas that do not overflow.

ncnn does not subtract the maximum before it computes exponentials, returns NaN for the logarithm of
0, and computes a power by a logarithm and an exponential.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

#: The largest exponent for which a power is written as products.
_MAX_EXPONENT = 64.0

#: The smallest normal float32.
_TINY = 2.0**-126

#: From this threshold on, a softplus equals its input in float32.
_MIN_THRESHOLD = 16.0


def replace_overflowing(graph: Any) -> None:
    """Change a TorchScript graph in place: replace the operators that overflow in ncnn."""
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


def _write_logsumexp(*_: object) -> str:
    return """
def stable(x: Tensor, dim: List[int], keepdim: bool):
    total = (x - x.amax(dim, True)).exp().sum(dim, keepdim)
    return total.log() + x.amax(dim, keepdim)
"""


def _write_log_softmax(_: object, dtype: torch.Value) -> str | None:
    if dtype.toIValue() is not None:
        return None
    return """
def stable(x: Tensor, dim: int, dtype: Optional[int]):
    difference = x - x.amax([dim], True)
    return difference - difference.exp().sum([dim], True).log()
"""


#: log(1 + y), exact for small y too: the quotient compensates the rounding of 1 + y (W. Kahan).
#: The constant 1e-30 turns 0 / 0 into 1.
_LOG1P = """
    sum = 1 + y
    log1p = y * ((sum.log() + 1e-30) / ((sum - 1) + 1e-30))
"""


def _write_softplus(_: object, threshold: Any) -> str | None:
    known = threshold.toIValue()
    if known is None or known < _MIN_THRESHOLD:
        return None
    return f"""
def stable(x: Tensor, beta: float, threshold: float):
    y = (x.abs() * -beta).exp()
    {_LOG1P}
    return x.relu() + log1p / beta
"""


def _write_log_sigmoid(*_: object) -> str:
    return f"""
def stable(x: Tensor):
    y = (-(x.abs())).exp()
    {_LOG1P}
    return -((-x).relu()) - log1p
"""


def _write_power(exponent: torch.Value) -> str | None:
    """Return TorchScript code for a power with this exponent; None to keep ncnn's layer.

    ncnn's layer is correct only for bases > 0.
    """
    power = exponent.toIValue()
    if not isinstance(power, int | float) or power == 1 or abs(power) > _MAX_EXPONENT:
        return None
    kind = "int" if isinstance(power, int) else "float"
    if not power:
        return f"def stable(x: Tensor, power: {kind}):\n    return x.sign() * 0 + 1\n"
    halves = round(abs(power) * 2)
    if halves != abs(power) * 2:
        if power < 0:
            return None
        # The exponential of a logarithm, times the sign of the base, so that zero gives zero.
        result = f"(x.clamp({_TINY}).log() * {power}).exp() * x.sign()"
        return f"def stable(x: Tensor, power: {kind}):\n    return {result}\n"
    lines, factor, factors = [], "x.sqrt()" if halves % 2 else "x", []
    steps = halves if halves % 2 else halves // 2
    while steps:
        lines.append(f"    x{steps} = {factor}")
        if steps % 2:
            factors.append(f"x{steps}")
        factor, steps = f"x{steps}.square()", steps // 2
    product = " * ".join(factors)
    result = f"({product}).reciprocal()" if power < 0 else product
    return "\n".join([f"def stable(x: Tensor, power: {kind}):", *lines, f"    return {result}", ""])


#: For each operator, a function that writes the replacement in TorchScript from all inputs but the
#: first. It returns None if the replacement would compute other numbers. No line of a replacement
#: reads a tensor twice: pnnx counts the readers of such a tensor wrongly.
_SOURCES: dict[str, Callable[..., str | None]] = {
    "aten::logsumexp": _write_logsumexp,
    "aten::log_softmax": _write_log_softmax,
    "aten::softplus": _write_softplus,
    "aten::log_sigmoid": _write_log_sigmoid,
    "aten::pow": _write_power,
}
