"""Models of one operator each, their examples, and inputs beyond the examples.

An example is typical for a user: numbers of unit variance, small integers. The inputs beyond it are
rarer, but such a model will receive them in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

NAN, INF = torch.nan, torch.inf

ENGINES = ("onnxruntime", "openvino", "ncnn")


@dataclass(frozen=True)
class Operator:
    """A model of one operator.

    Attributes:
        name: Its name, with the example's dtype.
        function: The model.
        example: The example inputs of the deployment.
        beyond: Inputs of the example's shapes and dtypes, by their special property.
    """

    name: str
    function: Callable[..., Any]
    example: tuple[Tensor, ...]
    beyond: dict[str, tuple[Tensor, ...]]

    def __str__(self) -> str:
        return self.name


class Apply(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Any:
        return self.function(*tensors)


def _normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _with(x: Tensor, *values: float) -> Tensor:
    """Return a copy with these values in the first places and in the middle."""
    found = x.clone()
    flat = found.view(-1)
    for place, value in enumerate(values):
        flat[place] = flat[flat.numel() // 2 + place] = value
    return found


X = _normal(1, 3, 4, 6)


def _float(name: str, function: Any, x: Tensor = X, **more: tuple[Tensor, ...]) -> Operator:
    beyond = {
        "nan": (_with(x, NAN),),
        "inf": (_with(x, INF, -INF),),
        "zeros": (torch.zeros_like(x),),
        "equal": (torch.full_like(x, 0.5),),
        "small": (x * 1e-6,),
        "large": (x * 1e4,),
    }
    return Operator(name, function, (x,), beyond | more)


def _integers(
    name: str, function: Any, dtype: torch.dtype = torch.int64, second: int | None = None
) -> Operator:
    """Return one or two inputs of small integers; the second, a divisor or a shift, is not zero."""
    x = torch.arange(24).reshape(1, 4, 6) * 5 % 17
    numbers = {"zeros": x * 0, "equal": x * 0 + 7}
    if dtype is not torch.uint8:
        numbers["negative"] = x - 8
    if dtype in (torch.int32, torch.int64):
        numbers["beyond 2^24"] = x + 2**24 + 1
    if dtype is torch.int64:
        numbers["beyond 2^31"] = x + 2**31
    if dtype is torch.uint8:
        numbers["255"] = x * 0 + 255 - x
    rest = () if second is None else ((torch.arange(24).reshape(1, 4, 6) % second + 1).to(dtype),)
    found = {key: (value.to(dtype), *rest) for key, value in numbers.items()}
    if second is not None and dtype is not torch.uint8:
        found["negative second"] = (x.to(dtype), -rest[0])
    dtype_name = str(dtype).removeprefix("torch.")
    return Operator(f"{name} {dtype_name}", function, (x.to(dtype), *rest), found)


SQUARE = _normal(1, 4, 4)
SINGULAR = torch.ones(1, 4, 4)
RANK_3 = torch.cat([SQUARE[:, :3], SQUARE[:, :1]], 1)
singular = {"singular": (SINGULAR,), "a row twice": (RANK_3,)}
PAIR = (_normal(2, 5), _normal(2, 5, seed=1))


def _pair(name: str, function: Any) -> Operator:
    a, b = PAIR
    return Operator(
        name,
        function,
        PAIR,
        {
            "nan first": (_with(a, NAN), b),
            "nan second": (a, _with(b, NAN)),
            "inf": (_with(a, INF, -INF), _with(b, INF, INF)),
            "zeros": (a * 0, b * 0),
            "equal": (a, a),
            "large": (a * 1e4, b * 1e-4),
        },
    )


ROWS = _normal(2, 6)
NO_ROW = ROWS.clone()
NO_ROW[0] = -INF
TABLE = _normal(7, 5)
IDS = torch.tensor([[0, 3, 6], [2, 5, 1]])
negative_ids = {"negative": (IDS - 7,), "mixed": (IDS - 3,)}
of_table = {label: (TABLE, *ids) for label, ids in negative_ids.items()}
QUERIES = _normal(1, 2, 6, 8)
MASK = torch.tensor([[True, True, False, True, False, False], [True] * 5 + [False]])
SQUARE_MASK = MASK[:1].expand(6, 6).clone()

OPERATORS = [
    # reductions and pooling
    _float("amax", lambda x: x.amax(-1)),
    _float("amin", lambda x: x.amin(-1)),
    _float("max of all", lambda x: x.max()),
    _float("max with dim", lambda x: x.max(-1)[0]),
    _float("argmax", lambda x: x.argmax(-1)),
    _float("mean", lambda x: x.mean((2, 3))),
    _float("sum", lambda x: x.sum(-1)),
    _float("prod", lambda x: x.prod(-1)),
    _float("std", lambda x: x.std(-1)),
    _float("logsumexp", lambda x: x.logsumexp(-1), ROWS, **{"a row of -inf": (NO_ROW,)}),
    _float("cumsum", lambda x: x.cumsum(-1)),
    _float("cumprod", lambda x: x.cumprod(-1)),
    _float("norm", lambda x: torch.linalg.vector_norm(x, dim=-1)),
    _float("normalize", lambda x: F.normalize(x, dim=-1)),
    _float("max_pool2d", lambda x: F.max_pool2d(x, 2)),
    _float("max_pool2d padded", lambda x: F.max_pool2d(x, 3, 1, 1)),
    _float("avg_pool2d", lambda x: F.avg_pool2d(x, 2)),
    _float("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 1)),
    _float("layer_norm", lambda x: F.layer_norm(x, x.shape[-1:])),
    # activations and elementwise
    _float("relu", F.relu),
    _float("relu6", F.relu6),
    _float("leaky_relu", F.leaky_relu),
    _float("elu", F.elu),
    _float("gelu", F.gelu),
    _float("silu", F.silu),
    _float("mish", F.mish),
    _float("hardswish", F.hardswish),
    _float("hardsigmoid", F.hardsigmoid),
    _float("softplus", F.softplus),
    _float("softsign", F.softsign),
    _float("logsigmoid", F.logsigmoid),
    _float("sigmoid", torch.sigmoid),
    _float("tanh", torch.tanh),
    _float("clamp", lambda x: x.clamp(-0.5, 0.5)),
    _float("clamp min", lambda x: x.clamp(min=0.1)),
    _float("softmax", lambda x: x.softmax(-1), ROWS, **{"a row of -inf": (NO_ROW,)}),
    _float("log_softmax", lambda x: x.log_softmax(-1), ROWS, **{"a row of -inf": (NO_ROW,)}),
    _float("expm1", torch.expm1),
    _float("log1p", lambda x: torch.log1p(x.abs())),
    _float("exp", torch.exp),
    _float("log", lambda x: x.abs().log()),
    _float("sqrt", torch.sqrt, X.abs(), negative=(X,)),
    _float("rsqrt", torch.rsqrt, X.abs(), negative=(X,)),
    _float("pow 3", lambda x: x**3),
    _float("abs", torch.abs),
    _float("sign", torch.sign),
    _float("round", torch.round, X * 3, halves=(torch.arange(-36, 36).reshape(X.shape) / 2,)),
    _float("floor", torch.floor),
    _float("isnan", torch.isnan),
    _float("isfinite", torch.isfinite),
    _float("nan_to_num", torch.nan_to_num),
    _float("where of a comparison", lambda x: torch.where(x > 0, x, -x)),
    _float("not less", lambda x: ~(x < 0)),
    _float("to int", lambda x: x.to(torch.int32), X * 9),
    _float("to bool", lambda x: x.bool()),
    _float("sort", lambda x: x.sort(-1)[0]),
    _float("topk", lambda x: x.topk(3)[0]),
    _float("asinh", torch.asinh),
    _float("tan", torch.tan),
    _float("erf", torch.erf),
    _float("reciprocal", torch.reciprocal),
    # two inputs
    _pair("maximum", torch.maximum),
    _pair("minimum", torch.minimum),
    _pair("fmax", torch.fmax),
    _pair("float remainder", torch.remainder),
    _pair("fmod", torch.fmod),
    _pair("atan2", torch.atan2),
    _pair("floor division", lambda a, b: torch.div(a, b, rounding_mode="floor")),
    _pair("logaddexp", torch.logaddexp),
    _pair("hypot", torch.hypot),
    _pair("xlogy", lambda a, b: torch.xlogy(a, b.abs())),
    _pair("cosine_similarity", lambda a, b: F.cosine_similarity(a, b)),
    _pair("cdist", lambda a, b: torch.cdist(a, b)),
    _pair("equal", lambda a, b: a == b),
    # matrices
    _float("det", torch.linalg.det, SQUARE, **singular),
    _float("inverse", lambda x: torch.linalg.inv(x + 4 * torch.eye(4)), SQUARE),
    # integers
    _integers("floor_divide", lambda a, b: a // b, second=3),
    _integers("floor_divide", lambda a, b: a // b, torch.int32, 3),
    _integers("floor by 4", lambda a: a // 4),
    _integers("trunc division", lambda a, b: torch.div(a, b, rounding_mode="trunc"), second=3),
    _integers("trunc by 4", lambda a: torch.div(a, 4, rounding_mode="trunc")),
    _integers("remainder", lambda a, b: a % b, second=3),
    _integers("remainder", lambda a: a % 5, torch.int32),
    _integers("fmod", lambda a, b: torch.fmod(a, b), second=3),
    _integers("true division", lambda a, b: a / b, second=3),
    _integers(">>", lambda a, b: a >> b, torch.int32, 3),
    _integers(">> 2", lambda a: a >> 2),
    _integers("<<", lambda a, b: a << b, torch.int32, 3),
    _integers("&", lambda a: a & 12),
    _integers("xor", lambda a, b: a ^ b, torch.int32, 3),
    _integers("not", lambda a: ~a, torch.int32),
    _integers("add", lambda a, b: a + b, second=3),
    _integers("add", lambda a, b: a + b, torch.uint8, 3),
    _integers("mul", lambda a, b: a * b, torch.uint8, 3),
    _integers("sub", lambda a, b: a - b, torch.uint8, 3),
    _integers("add", lambda a, b: a + b, torch.int8, 3),
    _integers("mul", lambda a, b: a * b, second=3),
    _integers("cumsum", lambda a: a.cumsum(-1)),
    _integers("sum", lambda a: a.sum(-1)),
    _integers("amax", lambda a: a.amax(-1)),
    _integers("abs", torch.abs),
    _integers("clamp", lambda a: a.clamp(2, 9)),
    _integers("pow", lambda a: a**2, torch.int32),
    _integers("sort", lambda a: a.sort(-1)[0]),
    _integers("equal", lambda a, b: a == b, second=3),
    _integers("one_hot", lambda a: F.one_hot(a.clamp(0, 16), 17)),
    _integers("to float", lambda a: a.float()),
    _integers("to float", lambda a: a.float() / 255, torch.uint8),
    # indices
    Operator("index", lambda i: TABLE[i], (IDS,), negative_ids),
    Operator("index of an input", lambda x, i: x[i], (TABLE, IDS), of_table),
    Operator("take", lambda x, i: x.take(i), (TABLE, IDS), of_table),
    # masks
    Operator(
        "masked softmax",
        lambda x, m: x.masked_fill(~m, -INF).softmax(-1),
        (ROWS, MASK),
        {"no key": (ROWS, MASK & torch.tensor([[False], [True]]))},
    ),
    Operator(
        "attention",
        lambda q, m: F.scaled_dot_product_attention(q, q, q, m),
        (QUERIES, SQUARE_MASK),
        {"a row without keys": (QUERIES, SQUARE_MASK & (torch.arange(6) > 0)[:, None])},
    ),
    Operator(
        "masked mean",
        lambda x, m: (x * m).sum(-1) / m.sum(-1),
        (ROWS, MASK),
        {
            "none": (ROWS, MASK & torch.tensor([[False], [True]])),
            "nan": (_with(ROWS, NAN), MASK),
        },
    ),
]
