"""Running a model: evaluation mode, and the tensors of a forward's result."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.errors import ModelError
from enginebay.tensors import output_leaves

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from torch import Tensor, nn


def output_tensors(result: Any, places: Collection[str], *, caches: bool = False) -> list[Tensor]:
    """The tensors of a forward's result, in order.

    Args:
        result: What the forward returned.
        places: The paths of the tensors that it returns for its example inputs; a model that makes
            keys of sizes returns others for other sizes, and under a tracer.
        caches: Opens the caches in it; their tensors are no outputs otherwise.

    Raises:
        ModelError: They are not as many as expected: the result depends on the input, or a
            rewriter has changed it.
    """
    import torch

    tensors = [
        (path, leaf)
        for path, leaf in output_leaves(result, caches=caches)
        if isinstance(leaf, torch.Tensor)
    ]
    if torch._C._get_tracing_state() is not None:  # it makes tensors of sizes
        tensors = [(path, leaf) for path, leaf in tensors if path in places or leaf.dim()]
    if len(tensors) != len(places):
        message = f"the model's forward returned {len(tensors)} tensors"
        raise ModelError(f"{message}; for its example inputs it returned {len(places)}")
    return [leaf for _, leaf in tensors]


def detached(tensor: Tensor) -> Tensor:
    """A copy without history, of the plain kind even where the caller is in inference mode.

    Inference tensors keep no version counter and cannot be traced.
    """
    import torch

    with torch.inference_mode(mode=False):
        return tensor.detach().clone()


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode, and every submodule back into its own mode afterwards.

    Functions that ``torch.compile`` wraps run as they were written, and float32 on a GPU is
    computed in float32.
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        _switch(model)
        with uncompiled(), _without_tf32():
            yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run functions that ``torch.compile`` wraps as they were written."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled yet, and its import takes a second
        yield
        return
    import torch

    with torch.compiler.set_stance("force_eager"):
        yield


@contextmanager
def _without_tf32() -> Iterator[None]:
    # TF32 has the 10 bits of float16, and cuDNN's convolutions and recurrent layers take it unless
    # told otherwise: an engine that computes in float32 would be compared with something coarser.
    import torch

    cudnn = torch.backends.cudnn
    try:
        convolutions, products = cudnn.allow_tf32, torch.get_float32_matmul_precision()
    except RuntimeError:  # the user chose by the newer fp32_precision, beside which these fail
        yield
        return
    try:
        cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        yield
    finally:
        cudnn.allow_tf32 = convolutions
        torch.set_float32_matmul_precision(products)


def _switch(model: nn.Module) -> None:
    # An exported program's module has its mode compiled in, and says so by raising.
    try:
        model.eval()
    except NotImplementedError:
        return
