"""A backend whose engine has few of ATen's operators; lowerings replace all others."""

from __future__ import annotations

import math
import shutil

import enginebay as eb
from enginebay.environment import Tier, check_import

#: All that the evaluator below can do: its names of operators are ATen's.
OPERATORS = frozenset(
    f"aten.{name}"
    for name in (
        *("add", "sub", "mul", "div", "neg", "exp", "log", "sqrt", "reciprocal", "clamp"),
        *("where", "lt", "gt", "ge", "eq", "sum", "amax", "mm", "convolution", "index"),
        *("permute", "view", "expand", "cat", "slice", "clone", "full", "arange", "_to_copy"),
    )
)


class Params(eb.BackendParams):
    """Its parameters, which are those of every backend."""

    file_name: eb.FileName = eb.FileName("model", suffix=".pt2")


lowerings = eb.RewriterSet(backend="small")


@lowerings.lowering("aten.sigmoid")
def sigmoid(ctx, x):
    return 1 / (1 + (-x).exp())


@lowerings.lowering("aten.relu")
def relu(ctx, x):
    return x.clamp(min=0)


@lowerings.lowering("aten.abs")
def absolute(ctx, x):
    return x.where(x >= 0, -x)


@lowerings.lowering("aten.tanh")
def tanh(ctx, x):
    return 2 / (1 + (-2 * x).exp()) - 1


@lowerings.lowering("aten.maximum")
def maximum(ctx, x, y):
    return x.where(x > y, y)


@lowerings.lowering("aten.mean.dim")
def mean(ctx, x, dim, keepdim=False, *, dtype=None):
    count = math.prod(x.shape[each] for each in dim)
    return x.sum(dim, keepdim, dtype=dtype) / count


@lowerings.lowering("aten.unsqueeze")
def unsqueeze(ctx, x, dim):
    sizes = list(x.shape)
    sizes.insert(dim % (x.dim() + 1), 1)
    return x.reshape(sizes)


@lowerings.lowering("aten.squeeze.dim")
@lowerings.lowering("aten.squeeze.dims")
def squeeze(ctx, x, dim):
    gone = [each % x.dim() for each in (dim if isinstance(dim, list) else [dim])]
    return x.reshape([n for axis, n in enumerate(x.shape) if axis not in gone or n != 1])


@lowerings.lowering("aten.select.int")
def select(ctx, x, dim, index):
    sizes = [*x.shape[: dim % x.dim()], *x.shape[dim % x.dim() + 1 :]]
    index = index % x.shape[dim]
    return x.narrow(dim, index, 1).reshape(sizes)


@lowerings.lowering("aten.bmm")
def bmm(ctx, x, y):
    return (x.unsqueeze(-1) * y.unsqueeze(1)).sum(2)


@lowerings.lowering("aten.native_layer_norm")
def layer_norm(ctx, x, shape, weight, bias, eps):
    dims = list(range(x.dim() - len(shape), x.dim()))
    average = x.mean(dims, keepdim=True)
    scale = 1 / ((x - average) * (x - average)).mean(dims, keepdim=True).add(eps).sqrt()
    return (x - average) * scale * weight + bias, average, scale


@lowerings.lowering("aten.erf")
def erf(ctx, x):
    """Abramowitz and Stegun, 7.1.26: wrong by 2e-7."""
    t = 1 / (1 + 0.3275911 * x.abs())
    powers = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
    total = 0
    for factor in reversed(powers):
        total = (total + factor) * t
    found = 1 - total * (-x * x).exp()
    return found.where(x >= 0, -found)


@lowerings.lowering("aten.gelu")
def gelu(ctx, x, *, approximate="none"):
    return (
        ctx.origin_op(x, approximate=approximate)
        if approximate != "none"
        else (x * (1 + (x * math.sqrt(0.5)).erf()) / 2)
    )


@lowerings.lowering("aten.logical_not")
def logical_not(ctx, x):
    return x == 0


@lowerings.lowering("aten.any.dim")
def any_of(ctx, x, dim, keepdim=False):
    return x.int().sum(dim, keepdim) > 0


@lowerings.lowering("aten.full_like")
def full_like(ctx, x, value, **options):
    import torch

    return torch.full(x.shape, value, dtype=options.get("dtype") or x.dtype)


@lowerings.lowering("aten.max_pool2d")
def max_pool2d(ctx, x, size, stride=(), padding=(0, 0), dilation=(1, 1), ceil_mode=False):
    """The windows of the reference graphs, which do not overlap."""
    n, c, h, w = x.shape
    (rows, columns), stride = size, stride or size
    if list(stride) != list(size) or any(padding) or h % rows or w % columns:
        return ctx.origin_op(x, size, stride, padding, dilation, ceil_mode)
    return x.reshape(n, c, h // rows, rows, w // columns, columns).amax((3, 5))


@eb.hookimpl
def backend_info():
    return eb.BackendInfo(
        name="small",
        irs=("exported_program",),
        params=Params,
        api_version=1,
        dtypes=("float16", "float32", "float64", "int32", "int64", "bool"),
        runtime_distributions=("torch",),
        operators=OPERATORS,
    )


@eb.hookimpl
def rewriters(request):
    return lowerings


@eb.hookimpl
def check_env(request):
    if request.tier is Tier.IMPORT:
        return check_import("torch", fix="pip install torch")
    return eb.EnvReport()


@eb.hookimpl
def unsupported_operators(request):
    return {}


@eb.hookimpl
def to_backend(request):
    target = request.work_dir / request.params.file_name
    shutil.copyfile(request.ir.path, target)
    return [target]


@eb.hookimpl
def build_wrapper(request):
    return Wrapper(request)


class Wrapper(eb.Wrapper):
    """Runs a program node by node."""

    def __init__(self, request):
        from enginebay.authors.files import read_exported_program

        program, ir = read_exported_program(request.directory / request.files[0])
        super().__init__(inputs=request.inputs or ir.inputs, outputs=request.outputs or ir.outputs)
        self._module = program.module()

    @property
    def receipt(self):
        import torch

        return eb.Receipt(engine=f"small {torch.__version__}", device="cpu")

    def execute(self, feed):
        import torch

        class Evaluator(torch.fx.Interpreter):
            def call_function(self, target, args, kwargs):
                name = getattr(target, "_schema", None)
                if name is not None and name.name.replace("::", ".") not in OPERATORS:
                    raise NotImplementedError(str(target))
                return super().call_function(target, args, kwargs)

        feed = [torch.from_numpy(feed[spec.name].copy()) for spec in self.inputs]
        with torch.no_grad():
            found = Evaluator(self._module).run(*feed)
        return [each.clone().numpy() for each in found]

    def release(self):
        self._module = None
