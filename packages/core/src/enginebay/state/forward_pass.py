"""Forward pass of a model: set evaluation mode, and find the output tensors in the result."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from enginebay import torch_private
from enginebay.errors import ModelError
from enginebay.tensors import output_leaves

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from torch import Tensor, nn


def output_tensors(result: object, paths: Collection[str], *, caches: bool = False) -> list[Tensor]:
    """Return the tensors of a forward's result, in order.

    Args:
        result: The value that the forward returned.
        paths: The paths of the output tensors for the example inputs. Only their number must
            match: a model whose keys contain sizes returns other paths for other sizes.
        caches: Include the tensors inside caches.

    Raises:
        ModelError: There are more or fewer tensors than for the example inputs: their number
            depends on the input values, or a rewriter changed it.
    """
    import torch

    tensors = [
        (path, leaf)
        for path, leaf in output_leaves(result, caches=caches)
        if isinstance(leaf, torch.Tensor)
    ]
    # A tracer turns sizes into scalar tensors.
    if torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]  # untyped
        tensors = [(path, leaf) for path, leaf in tensors if path in paths or leaf.dim()]
    if len(tensors) != len(paths):
        raise ModelError(
            "the model's forward returns a different number of tensors: "
            f"{len(paths)} for the example inputs, now {len(tensors)}"
        )
    return [leaf for _, leaf in tensors]


def copy_detached(tensor: Tensor) -> Tensor:
    """Return a copy without gradient history; the copy is never an inference tensor."""
    import torch

    # Inference tensors have no version counter and cannot be traced.
    with torch.inference_mode(mode=False):
        return tensor.detach().clone()


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Set a model to evaluation mode inside the block, and restore each submodule's mode after it.

    Inside the block, functions that ``torch.compile`` wraps run uncompiled, and a GPU computes
    float32 without TF32.
    """
    # Each module's own mode: model.train() would set all of them alike.
    # A TorchScript module that torch.jit.freeze made has none.
    modes = [(each, each.training) for each in model.modules() if hasattr(each, "training")]
    try:
        _set_evaluation_mode(model)
        with run_uncompiled(), _disable_tf32():
            yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def run_uncompiled() -> Iterator[None]:
    """Inside the block, functions that ``torch.compile`` wraps run uncompiled."""
    if not torch_private.is_dynamo_loaded():  # then nothing is compiled
        try:
            yield
        finally:
            torch_private.forget_compiled()
        return
    import torch

    with torch.compiler.set_stance("force_eager"):
        yield


@contextmanager
def _disable_tf32() -> Iterator[None]:
    # cuDNN's convolutions and recurrent layers use TF32 by default, with only 10 bits of mantissa.
    # The reference for an engine in float32 must be at least as precise.
    import torch

    cudnn = torch.backends.cudnn
    try:
        convolutions, products = cudnn.allow_tf32, torch.get_float32_matmul_precision()
    except RuntimeError:  # the user has set the newer fp32_precision, which disables these
        yield
        return
    try:
        cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        yield
    finally:
        cudnn.allow_tf32 = convolutions
        torch.set_float32_matmul_precision(products)


def _set_evaluation_mode(model: nn.Module) -> None:
    # The mode of an exported program's module is fixed; eval() raises NotImplementedError.
    try:
        model.eval()
    except NotImplementedError:
        return
