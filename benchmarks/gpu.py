"""Calls with tensors on a GPU: ONNX Runtime through Enginebay, and its bare IOBinding.

It needs one GPU, onnxruntime-gpu and a torch for CUDA, and takes less than five minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

import enginebay as eb
from benchmarks import models
from benchmarks.table import Row
from benchmarks.turns import calls, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.turns import Side

#: ONNX's types of elements, for the dtypes of the models' inputs and outputs.
ELEMENT_TYPES = {torch.float32: 1, torch.int64: 7, torch.float16: 10}


def linear() -> tuple[nn.Module, Tensor]:
    """One Linear, so that a call consists of its overhead."""
    torch.manual_seed(0)
    return nn.Linear(64, 64).eval(), torch.randn(1, 64)


def resnet50_of_16() -> tuple[nn.Module, Tensor]:
    """ResNet-50 with 16 images."""
    model, _ = models.resnet50()
    return model, torch.randn(16, 3, 224, 224)


class _Case(NamedTuple):
    what: str
    model: Callable[[], tuple[nn.Module, Tensor]]
    precision: str
    limit: float
    graph_limit: float | None
    calls_a_turn: int


CASES = (
    _Case("Linear 64×64", linear, "fp32", 1.5, None, 100),
    _Case("ResNet-50, 1 image", models.resnet50, "fp16", 1.03, 1.05, 20),
    _Case("ResNet-50, 16 images", resnet50_of_16, "fp16", 1.03, 1.05, 10),
    _Case("BERT-base, 1×128", models.bert_base, "fp16", 1.03, 1.05, 10),
)
TURNS = 60


def run() -> Iterator[Row]:
    """Measure a row for each model, and another for its CUDA graph."""
    import onnxruntime

    # A build lists the provider also on a machine without a GPU.
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers() or (
        not torch.cuda.is_available()
    ):
        print("gpu: no GPU with CUDA, and nothing was measured", file=sys.stderr)
        return
    for case in CASES:
        with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
            model, example = case.model()
            params = {"device": "cuda", "precision": case.precision}
            work_dir = Path(folder) / "artifact"
            artifact = eb.deploy(
                model, example, work_dir=work_dir, backend="onnxruntime", params=params
            ).artifact
            yield _row(case, artifact, example, graph=False, limit=case.limit)
            if case.graph_limit is not None:
                yield _row(case, artifact, example, graph=True, limit=case.graph_limit)


def _row(case: _Case, artifact: eb.Artifact, example: Tensor, *, graph: bool, limit: float) -> Row:
    tensor = example.cuda()
    with eb.load(artifact, params={"cuda_graph": graph}) as wrapper:
        ours = calls(wrapper, {wrapper.input_names[0]: tensor})
        bare = _bare(artifact, tensor, graph=graph)
        found = compare(ours, bare, calls_a_turn=case.calls_a_turn, turns=TURNS)
    kind = "bare CUDA graph" if graph else "bare IOBinding"
    unit = "ms" if found.bare > 1e-3 else "µs"
    what = f"{case.what}, {case.precision}"
    return Row.of("gpu", what, f"onnxruntime, {kind}", found, unit, limit)


def _bare(artifact: eb.Artifact, tensor: Tensor, *, graph: bool) -> Side:
    """The best call without Enginebay: everything is bound once, and the outputs are reused."""
    import onnxruntime

    options = {"use_tf32": "0", "enable_cuda_graph": str(int(graph))}
    session = onnxruntime.InferenceSession(
        artifact.path / artifact.files[0], providers=[("CUDAExecutionProvider", options)]
    )
    (spec,) = session.get_outputs()
    output = torch.empty(spec.shape, dtype=torch.float32, device="cuda")
    binding = session.io_binding()
    for name, value, bind in (
        (session.get_inputs()[0].name, tensor, binding.bind_input),
        (spec.name, output, binding.bind_output),
    ):
        element_type = ELEMENT_TYPES[value.dtype]
        bind(name, "cuda", 0, element_type, tuple(value.shape), value.data_ptr())
    kept = tensor, output  # the binding holds only addresses

    def call() -> object:
        session.run_with_iobinding(binding)
        return kept

    return calls(call)
