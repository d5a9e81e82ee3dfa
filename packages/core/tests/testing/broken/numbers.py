"""Conversions and engines with wrong numbers."""

from __future__ import annotations

from .plugin import Broken

#: Loopback with a precision that is calibrated, which it computes in as it does in any other.
CALIBRATED = """
        class Params(loopback.LoopbackParams):
            precision: str = "fp32"

        PARAMS = Params
        INFO |= {"precisions": ("fp32", "int8"), "calibrated": ("int8",)}

        @eb.hookimpl
        def quantizable_nodes(request):
            return {"node_conv2d": "Conv", "node_linear": "Gemm"}
"""

#: Loopback with fp16, which its receipt claims and its engine ignores.
HALF = """
        class Params(loopback.LoopbackParams):
            precision: str = "fp32"

        PARAMS = Params
        INFO |= {"precisions": ("fp32", "fp16")}

        class Wrapper(loopback.LoopbackWrapper):
            def __init__(self, request):
                super().__init__(request)
                self.precision = request.params.precision

            @property
            def receipt(self):
                return eb.Receipt(engine="half 1", device="cpu", precision=self.precision)
"""

BROKEN = {
    "its int8 claims to be fp32": Broken(
        "test_each_precision_gives_its_numbers",
        "expected int8, found fp32 without a fallback",
        CALIBRATED,
    ),
    "its fp16 raises": Broken(
        "test_each_precision_gives_its_numbers",
        "could not convert .*: NotImplementedError: fp16",
        HALF
        + """
        @eb.hookimpl
        def to_backend(request):
            if request.params.precision == "fp16":
                raise NotImplementedError("fp16")
            return loopback.to_backend(request)
        """,
    ),
    "its fp16 is three times too large": Broken(
        "test_each_precision_gives_its_numbers",
        "mismatched",
        HALF
        + """
        class Wrapper(Wrapper):
            def execute(self, feed):
                return [y * (3 if self.precision == "fp16" else 1) for y in super().execute(feed)]
        """,
    ),
    "its fp16 is fp32": Broken(
        "test_each_precision_gives_its_numbers",
        "in fp16 the numbers equal those of fp32",
        HALF,
    ),
    "its nodes cannot be kept out of int8": Broken(
        "test_nodes_can_be_kept_in_floating_point",
        "in int8, the outputs are the same if 'node_conv2d' is kept in floats",
        CALIBRATED,
    ),
    "its numbers are a little off": Broken(
        "test_numbers_of_reference_models",
        "differ",
        """
        def execute(self, feed):
            return [y * y.dtype.type(1.001) for y in super().execute(feed)]
        """,
        {"model": "pointwise"},
    ),
    "it lists an IR that it cannot convert": Broken(
        "test_every_ir_that_is_listed_is_converted",
        "is damaged or not an ONNX model",
        'INFO["irs"] = ("onnx", "torchscript")',
        {"ir": "torchscript"},
    ),
    "it leaves the weights behind": Broken(
        "test_weights_may_be_beside_the_onnx_file",
        "weights",
        """
        @eb.hookimpl
        def to_backend(request):
            import shutil
            return [shutil.copy(request.ir.path, request.work_dir / "model.onnx")]
        """,
    ),
    "it computes in place": Broken(
        "test_numbers_of_reference_models",
        "writes into its input 'x'",
        """
        def execute(self, feed):
            outputs = super().execute(feed)
            for x in feed.values():
                x *= 2
            return outputs
        """,
        {"model": "pointwise"},
    ),
    "its precision is no parameter": Broken(
        "test_each_precision_gives_its_numbers",
        "precision",
        'INFO["precisions"] = ("fp32", "fp16")',
    ),
    "it reads best an operator set that does not exist": Broken(
        "test_numbers_of_reference_models",
        "opset",
        'INFO["opset"] = 99',
        {"model": "pointwise"},
    ),
    "it computes in bf16 and says fp32": Broken(
        "test_numbers_of_reference_models",
        "differ",
        """
        def execute(self, feed):
            import numpy as np
            outputs = super().execute(feed)
            return [(y.view(np.uint32) & 0xFFFF0000).view(np.float32) for y in outputs]
        """,
        {"model": "pointwise"},
    ),
    "it remembers the call before": Broken(
        "test_numbers_of_reference_models",
        "differ",
        """
        def execute(self, feed):
            outputs = super().execute(feed)
            before, self.before = getattr(self, "before", outputs), outputs
            return [y + y.dtype.type(0.01) * x.sum() for x, y in zip(before, outputs)]
        """,
        {"model": "pointwise"},
    ),
    "it is never the same": Broken(
        "test_numbers_of_reference_models",
        "differ",
        """
        def execute(self, feed):
            import numpy as np
            noise = np.random.default_rng()
            outputs = super().execute(feed)
            return [y + 0.01 * noise.standard_normal(y.shape).astype(y.dtype) for y in outputs]
        """,
        {"model": "pointwise"},
    ),
    "it gives one output of two": Broken(
        "test_numbers_of_reference_models",
        "output",
        """
        def execute(self, feed):
            return super().execute(feed)[:1]
        """,
        {"model": "convolutions"},
    ),
    "it gives torch tensors": Broken(
        "test_numbers_of_reference_models",
        "Tensor",
        """
        def execute(self, feed):
            import torch
            return [torch.from_numpy(y) for y in super().execute(feed)]
        """,
        {"model": "pointwise"},
    ),
    "it gives Python's lists": Broken(
        "test_numbers_of_reference_models",
        "list",
        """
        def execute(self, feed):
            return [y.tolist() for y in super().execute(feed)]
        """,
        {"model": "pointwise"},
    ),
    "its depthwise convolution is the first channel's": Broken(
        "test_numbers_of_reference_models",
        "differ",
        """
        @eb.hookimpl
        def to_backend(request):
            import numpy as np, onnx
            from onnx import numpy_helper
            model = onnx.load(request.ir.path)
            for tensor in model.graph.initializer:
                weights = numpy_helper.to_array(tensor)
                if weights.shape == (8, 1, 3, 3):
                    first = np.repeat(weights[:1], 8, 0)
                    tensor.CopyFrom(numpy_helper.from_array(first, tensor.name))
            onnx.save(model, request.work_dir / "model.onnx")
            return ["model.onnx"]
        """,
        {"model": "convolutions"},
    ),
    "it adds noise that no tolerance sees": Broken(
        "test_the_same_inputs_give_the_same_numbers",
        "expected equal bits, call 2 is .*e-.* off",
        """
        class Wrapper(Wrapper):
            def execute(self, feed):
                import numpy as np
                noise = np.random.default_rng()
                return [y + noise.normal(0, 2e-6, y.shape).astype(y.dtype)
                        for y in super().execute(feed)]
        """,
        {"model": "convolutions"},
    ),
}
