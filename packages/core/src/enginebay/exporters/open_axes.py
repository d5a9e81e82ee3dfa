"""Samples for open dimensions, and which output dimensions follow them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from enginebay.errors import ExportError, reason
from enginebay.tensors import resize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor

    from enginebay.exporters.export_job import Job
    from enginebay.models import DynamicDim, DynamicShapes


def sample(examples: Mapping[str, Tensor], dynamic: DynamicShapes) -> dict[str, Tensor]:
    """The example inputs at sizes that leave the open dimensions open.

    An exporter cannot tell an open dimension of size 0 or 1 from one that is broadcast, so an
    example with a batch of one is exported with a batch of two.

    Args:
        examples: Example inputs by name; they stay as they are.
        dynamic: The open dimensions.
    """
    return _sized(examples, dynamic, _sample_sizes(examples, dynamic))


@dataclass(frozen=True)
class OutputDims:
    """The open axes of the outputs and their names, by output; None where they are not known."""

    axes: dict[str, dict[int, str]] | None
    notes: tuple[str, ...] = ()


def output_dims(job: Job) -> OutputDims:
    """Find out which axes of the outputs are open.

    The model runs at two sizes; an axis that changes is open. It has an open dimension's name
    where it changed as that dimension did, else a name of its own.

    Raises:
        ExportError: The model does not run at a size that is in the caller's ranges.
    """
    import torch

    if not job.dynamic:
        return OutputDims({})
    before = _sample_sizes(job.samples, job.dynamic)
    after = _other_sizes(job.dynamic, before)
    try:
        with torch.no_grad():
            shapes = [_output_shapes(job, sizes) for sizes in (before, after)]
    except Exception as err:  # noqa: BLE001 - the model's own code may raise anything
        return OutputDims(None, (_refusal(job.dynamic, after, err),))
    return OutputDims(
        {
            name: _open_axes(name, zip(*pair, strict=True), before, after)
            for name, *pair in zip(job.output_names, *shapes, strict=True)
        }
    )


def _refusal(dynamic: DynamicShapes, sizes: Mapping[str, int], err: Exception) -> str:
    """A note where the sizes were a guess; an error where the caller's ranges promise them."""
    tried = ", ".join(f"{name}={size}" for name, size in sizes.items())
    line = f"the model does not run with {tried}: {reason(err)}"
    if all(dim.max is not None for axes in dynamic.values() for dim in axes.values()):
        raise ExportError(line, hint="narrow the ranges in dynamic") from err
    return line


def _output_shapes(job: Job, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
    inputs = _sized(job.samples, job.dynamic, sizes)
    return [tuple(out.shape) for out in job.flat(*(tensor.clone() for tensor in inputs.values()))]


def _open_axes(
    name: str, sizes: Iterable[tuple[int, int]], before: Mapping[str, int], after: Mapping[str, int]
) -> dict[int, str]:
    axes = {}
    for axis, (first, second) in enumerate(sizes):
        if first != second:
            same = [dim for dim in before if (before[dim], after[dim]) == (first, second)]
            axes[axis] = same[0] if len(same) == 1 else f"{name}_{axis}"
    return axes


def _other_sizes(dynamic: DynamicShapes, sizes: Mapping[str, int]) -> dict[str, int]:
    """A second size for each dimension: another multiple for each, to tell them apart."""
    dims = {dim.name: dim for axes in dynamic.values() for dim in axes.values()}
    return {
        name: _other(dim, sizes[name], factor)
        for factor, (name, dim) in enumerate(dims.items(), start=2)
    }


def _other(dim: DynamicDim, size: int, factor: int) -> int:
    # A multiple first: sizes often have to be divisible by 8 or 32, as the sample is.
    limits = [size for size in (dim.max, dim.min) if size is not None]
    candidates = [size * factor, size * 2, *limits]
    return next((other for other in candidates if other != size and dim.holds(other)), size)


def _sample_sizes(examples: Mapping[str, Tensor], dynamic: DynamicShapes) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, axes in dynamic.items():
        for axis, dim in axes.items():
            sizes.setdefault(dim.name, _usable(dim, examples[name].shape[axis]))
    return sizes


def _usable(dim: DynamicDim, found: int) -> int:
    """The size found, or the nearest in the range that is not 0 or 1, if there is one."""
    size = max(found, dim.min, 2)
    return size if dim.max is None else min(size, dim.max)


def _sized(
    examples: Mapping[str, Tensor], dynamic: DynamicShapes, sizes: Mapping[str, int]
) -> dict[str, Tensor]:
    resized = dict(examples)
    for name, axes in dynamic.items():
        shape = list(examples[name].shape)
        for axis, dim in axes.items():
            shape[axis] = sizes[dim.name]
        resized[name] = resize(examples[name], shape)
    return resized
