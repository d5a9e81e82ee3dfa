"""The planted faults: modules in models of the zoo, whose results a rewriter makes wrong."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import enginebay as eb
import enginebay_lab as lab
from tests.zoo.models import build

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn


class PlantedFault(NamedTuple):
    """A wrong rewriter in a model, on the way to an engine.

    Attributes:
        model: The model's name in the zoo.
        module: The path of the module whose result is made wrong.
        backend: The engine.
        exporter: The ONNX exporter; None for the engine's own way.
    """

    model: str
    module: str
    backend: str = "onnxruntime"
    exporter: str | None = "torchscript"


FAULTS = (
    PlantedFault("bert", "encoder.layer.1.intermediate.intermediate_act_fn"),
    PlantedFault("distilbert", "distilbert.transformer.layer.0", exporter="dynamo"),
    PlantedFault("deberta-v2", "encoder.layer.0.attention.output.dense"),
    PlantedFault("gpt2", "transformer.h.0.attn", "openvino"),
    PlantedFault("llama", "model.layers.1.mlp.act_fn", exporter="dynamo"),
    PlantedFault("qwen3", "model.layers.0.self_attn.k_norm"),
    PlantedFault("mixtral", "model.layers.0.self_attn.o_proj"),
    PlantedFault("mamba", "backbone.layers.1.mixer.x_proj"),
    PlantedFault("t5", "decoder.block.0.layer.1.layer_norm"),
    PlantedFault("whisper", "model.encoder.layers.0.fc1", "openvino"),
    PlantedFault("vit", "vit.layers.0.mlp.activation_fn", "ncnn", None),
    PlantedFault("swin", "swin.encoder.layers.1.blocks.0.mlp"),
    PlantedFault("convnext", "convnext.encoder.stages.0.layers.0.pwconv2", exporter="dynamo"),
    PlantedFault("resnet", "resnet.encoder.stages.1.layers.0.layer.2", "ncnn", None),
    PlantedFault("efficientnet", "encoder.blocks.5"),
    PlantedFault("segformer", "segformer.stages.1.blocks.0.attention", "openvino"),
    PlantedFault("dpt", "neck.fusion_stage.layers.1.residual_layer2"),
    PlantedFault("detr", "model.encoder"),
    PlantedFault("wav2vec2", "encoder.pos_conv_embed.padding"),
    PlantedFault("clip", "vision_model.encoder.layers.1.mlp.fc1", "openvino", "dynamo"),
)


class Found(NamedTuple):
    """The result of a search.

    Attributes:
        module: The module whose result was made wrong.
        verdict: The verdict on the engine with the fault in it.
        bisection: The result of the bisection.
        seconds: The duration of the bisection.
    """

    module: str
    verdict: str
    bisection: lab.Bisection
    seconds: float

    @property
    def is_right(self) -> bool:
        """True if the engine is wrong and the bisection names the fault."""
        return self.verdict == "mismatched" and self.bisection.module == self.module


def bent(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Change the negative numbers of a module's result."""
    return _bent(module(*args, **kwargs))


def _bent(result: Any) -> Any:
    import torch

    if isinstance(result, torch.Tensor):
        return result * 0.9 + result.relu() * 0.1
    if isinstance(result, tuple):
        return (_bent(result[0]), *result[1:])
    first = next(iter(result))  # transformers' results are dicts
    result[first] = _bent(result[first])
    return result


def wrong_rewriter(target: nn.Module, mistake: Callable[..., Any] = bent) -> eb.RewriterSet:
    """Return a rewriter that calls ``mistake`` with the module and its arguments instead."""
    from torch import nn

    rewriters = eb.RewriterSet()

    @rewriters.module(f"{type(target).__module__}.{type(target).__qualname__}")
    class Wrong(nn.Module):
        def __init__(self, ctx: Any, module: nn.Module) -> None:
            super().__init__()
            self.inner = module
            self.is_target = module is target

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            called = partial(mistake, self.inner) if self.is_target else self.inner
            return called(*args, **kwargs)

    return rewriters


def search(fault: PlantedFault) -> Found:
    """Plant the wrong rewriter, deploy the model, and bisect the wrong outputs."""
    import transformers

    transformers.logging.set_verbosity_error()
    model, inputs = build(fault.model)
    rewriters = [wrong_rewriter(model.get_submodule(fault.module))]
    with TemporaryDirectory(prefix="enginebay-bisect-") as folder:
        deployment = eb.deploy(
            model,
            inputs,
            backend=fault.backend,
            work_dir=Path(folder) / "artifact",
            export=eb.ExportOptions(exporter=fault.exporter, rewriters=rewriters),
            verify=eb.VerifyOptions(probes=1, allow_mismatch=True),
        )
        start = time.perf_counter()
        bisection = lab.bisect(deployment.artifact, model, rewriters=rewriters)
        seconds = time.perf_counter() - start
    return Found(fault.module, deployment.verdict, bisection, seconds)
