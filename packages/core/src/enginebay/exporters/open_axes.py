"""Example inputs with which exporters keep axes dynamic, and detection of dynamic output axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from enginebay.errors import ExportError, reason
from enginebay.params import add_sizes
from enginebay.tensors import resize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor

    from enginebay.exporters.export_job import ExportJob
    from enginebay.params import DynamicDim, DynamicShapes


def make_samples(examples: Mapping[str, Tensor], dynamic: DynamicShapes) -> dict[str, Tensor]:
    """Return the example inputs, resized so that an exporter can keep dimensions dynamic.

    An exporter cannot distinguish a dynamic dimension of size 0 or 1 from a broadcast dimension.
    Therefore, an example with a batch of one is resized to a batch of two.

    Args:
        examples: Input name → example tensor; the tensors are not changed.
        dynamic: The dynamic dimensions.
    """
    return _resize_inputs(examples, dynamic, _choose_sample_sizes(examples, dynamic))


@dataclass(frozen=True)
class OutputAxes:
    """The dynamic axes of the outputs.

    Attributes:
        axes: Output name → axis → name of the dimension; None if the axes are unknown.
        notes: The reason why the axes are unknown, for the user.
    """

    axes: dict[str, dict[int, str]] | None
    notes: tuple[str, ...] = ()


def find_output_axes(job: ExportJob) -> OutputAxes:
    """Find the dynamic axes of the outputs by two runs of the model with different input sizes.

    An axis whose size changes is dynamic. If exactly one dynamic dimension of the inputs has the
    same two sizes, the axis gets the name of this dimension, otherwise a new name.

    Raises:
        ExportError: The model fails at a size within the caller's ranges.
    """
    import torch

    if not job.dynamic:
        return OutputAxes({})
    before = _choose_sample_sizes(job.samples, job.dynamic)
    after = _choose_other_sizes(job.dynamic, before)
    try:
        with torch.no_grad():
            shapes = [_run_at_sizes(job, sizes) for sizes in (before, after)]
    except Exception as err:  # noqa: BLE001 - the model's own code may raise anything
        return OutputAxes(None, (_report_refused_sizes(job.dynamic, after, err),))
    return OutputAxes(
        {
            name: _compare_shapes(name, zip(*pair, strict=True), before, after)
            for name, *pair in zip(job.output_names, *shapes, strict=True)
        }
    )


def _report_refused_sizes(dynamic: DynamicShapes, sizes: Mapping[str, int], err: Exception) -> str:
    """Return a note that the model fails at ``sizes``; raise if all ranges have an upper bound."""
    tried = ", ".join(f"{name}={size}" for name, size in sizes.items())
    line = f"the model fails with {tried}: {reason(err)}"
    # Without an upper bound the sizes are a guess. With one, the caller promised them.
    if all(dim.max is not None for axes in dynamic.values() for dim in axes.values()):
        raise ExportError(line, hint="narrow the ranges in 'dynamic'") from err
    return line


def _run_at_sizes(job: ExportJob, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
    inputs = _resize_inputs(job.samples, job.dynamic, sizes)
    return [tuple(out.shape) for out in job.flat(*(tensor.clone() for tensor in inputs.values()))]


def _compare_shapes(
    name: str, sizes: Iterable[tuple[int, int]], before: Mapping[str, int], after: Mapping[str, int]
) -> dict[int, str]:
    axes = {}
    for axis, (first, second) in enumerate(sizes):
        if first != second:
            same = [dim for dim in before if (before[dim], after[dim]) == (first, second)]
            axes[axis] = same[0] if len(same) == 1 else f"{name}_{axis}"
    return axes


def _choose_other_sizes(dynamic: DynamicShapes, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return dimension name → new size; if possible, multiply each size by a different factor."""
    dims = {d.name: d for axes in dynamic.values() for d in axes.values() if not d.is_sum}
    return {
        name: _choose_other_size(dim, sizes[name], factor)
        for factor, (name, dim) in enumerate(dims.items(), start=2)
    }


def _choose_other_size(dim: DynamicDim, size: int, factor: int) -> int:
    # Multiples first: many models require sizes that are divisible by 8 or 32.
    limits = [size for size in (dim.max, dim.min) if size is not None]
    candidates = [size * factor, size * 2, *limits]
    return next((other for other in candidates if other != size and dim.holds(other)), size)


def _choose_sample_sizes(examples: Mapping[str, Tensor], dynamic: DynamicShapes) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, axes in dynamic.items():
        for axis, dim in axes.items():
            if not dim.is_sum:
                sizes.setdefault(dim.name, _clamp_size(dim, examples[name].shape[axis]))
    return sizes


def _clamp_size(dim: DynamicDim, example_size: int) -> int:
    """Return the allowed size nearest to the size of the example; above 1 if this is allowed."""
    size = max(example_size, dim.min, 2)
    return size if dim.max is None else min(size, dim.max)


def _resize_inputs(
    examples: Mapping[str, Tensor], dynamic: DynamicShapes, sizes: Mapping[str, int]
) -> dict[str, Tensor]:
    resized = dict(examples)
    for name, axes in dynamic.items():
        shape = list(examples[name].shape)
        for axis, dim in axes.items():
            shape[axis] = add_sizes(dim.name, sizes) or 0
        resized[name] = resize(examples[name], shape)
    return resized
