"""Recorded inputs for int8 and fp8, checked against the model that they are for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.authors import load_inputs, numpy_dtype
from enginebay.errors import ArtifactError, ParamsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray

    Samples = list[dict[str, NumpyArray]]

_HINT = "numpy.savez('calibration.npz', x=inputs), where inputs[0] is the first whole input"


def read_calibration(path: str, inputs: Sequence[TensorSpec]) -> Samples:
    """The samples in a file.

    Raises:
        ParamsError: It is not such a file, holds no sample, or does not fit the model.
    """
    if not Path(path).is_file():
        raise ParamsError(f"calibration data '{path}' is not a file", hint=_HINT)
    try:
        recorded = load_inputs(Path(path))
    except ArtifactError as err:
        raise ParamsError(f"calibration data '{path}' cannot be read: {err}", hint=_HINT) from err
    return fitting(recorded, inputs, f"calibration data '{path}'")


def fitting(
    recorded: Iterable[Mapping[str, NumpyArray]], inputs: Sequence[TensorSpec], what: str
) -> Samples:
    """The samples with the model's inputs and nothing else.

    Raises:
        ParamsError: There is none, or one lacks an input or has another dtype or shape.
    """
    samples = [{spec.name: _fitting(sample, spec, what) for spec in inputs} for sample in recorded]
    if not samples:
        raise ParamsError(f"{what} holds no sample", hint=_HINT)
    return samples


def _fitting(sample: Mapping[str, NumpyArray], spec: TensorSpec, what: str) -> NumpyArray:
    if spec.name not in sample:
        raise ParamsError(f"{what} lacks input '{spec.name}': it has {', '.join(sample)}")
    array = sample[spec.name]
    if array.dtype != numpy_dtype(spec.dtype):
        raise ParamsError(
            f"{what} has dtype {array.dtype} for input '{spec.name}', wanted {spec.dtype}"
        )
    if not _shape_fits(array.shape, spec.dims):
        raise ParamsError(
            f"{what} has shape {array.shape} for input '{spec.name}', wanted {spec.describe()}",
            hint=_HINT,
        )
    return array


def _shape_fits(shape: tuple[int, ...], dims: tuple[int | str, ...] | None) -> bool:
    if dims is None:
        return True
    return len(shape) == len(dims) and all(
        size == dim for size, dim in zip(shape, dims, strict=True) if isinstance(dim, int)
    )
