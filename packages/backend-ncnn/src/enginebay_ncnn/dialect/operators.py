"""The operators of ATen that this folder writes for pnnx and ncnn.

All others are lowered before: by the declarations of ``lowerings``, by core's, or by torch.
Imports no torch: the plugin says what it has before anything is installed.
"""

from __future__ import annotations

#: Functions of single elements that ncnn has, and that nothing has to be said about.
UNARY = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf"),
    *("exp", "expm1", "floor", "log", "log10", "log1p", "reciprocal", "round", "rsqrt"),
    *("sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "sigmoid", "relu", "relu6"),
    *("gelu", "silu", "elu", "selu", "celu", "leaky_relu", "mish", "hardtanh"),
    *("hardswish", "hardsigmoid", "log_sigmoid"),
)

#: Operators on images that treat every channel alike.
CHANNELWISE = (
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
    *("_adaptive_avg_pool2d", "_adaptive_avg_pool3d"),
    *("reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d"),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_linear1d"),
    *("upsample_bilinear2d", "upsample_bicubic2d", "pixel_shuffle", "pixel_unshuffle"),
)

#: Pools with a window.
POOLS = ("avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d")

#: Operators on images that ncnn has a layer for, and that nothing has to be said about.
LAYERS = ("im2col", "col2im", "channel_shuffle")

#: The others that compute with numbers, by the file that writes them.
ROOMS = {
    "arithmetic": (*("add", "sub", "mul", "neg", "div", "pow", "atan2", "_to_copy"),),
    "logic": (
        *("eq", "ne", "lt", "le", "gt", "ge", "where", "clamp", "maximum", "minimum"),
        *("logical_not", "logical_and", "logical_or", "logical_xor"),
        *("bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor"),
        *("any", "all", "isnan", "isinf", "nan_to_num"),
    ),
    "reductions": (
        *("sum", "mean", "amax", "amin", "prod", "var", "linalg_vector_norm"),
        *("softmax", "_softmax"),
    ),
    "layout": (
        *("view", "_unsafe_view", "unsqueeze", "squeeze", "permute", "transpose", "t"),
        *("clone", "alias", "detach", "lift_fresh_copy", "copy"),
        *("slice", "select", "split", "split_with_sizes", "unbind", "cat", "stack"),
        *("expand", "repeat"),
    ),
    "gather": (*("index", "index_select", "gather", "embedding", "masked_scatter"),),
    "contraction": (
        *("matmul", "mm", "bmm", "addmm", "linear", "scaled_dot_product_attention", "cumsum"),
    ),
    "images": (
        *("convolution", "_convolution", "constant_pad_nd"),
        *("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"),
    ),
    "norms": (
        *("layer_norm", "group_norm", "instance_norm"),
        *("prelu", "_prelu_kernel"),
        "_native_batch_norm_legit_no_training",
    ),
}

#: What makes a tensor out of numbers, which is a constant.
CONSTANTS = (
    *("full", "zeros", "ones", "empty", "arange", "scalar_tensor", "eye", "linspace"),
    *("full_like", "zeros_like", "ones_like", "empty_like"),
)

OPERATORS = frozenset(
    f"aten.{name}"
    for names in (UNARY, CHANNELWISE, POOLS, LAYERS, CONSTANTS, *ROOMS.values())
    for name in names
)
