"""Recorded inputs that int8 and fp8 are calibrated with, checked against the model."""

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
    """Read the samples in a file.

    Raises:
        ParamsError: The file cannot be read, holds no sample, or does not fit the model.
    """
    if not Path(path).is_file():
        raise ParamsError(f"calibration data '{path}' is not a file", hint=_HINT)
    try:
        recorded = load_inputs(Path(path))
    except ArtifactError as err:
        raise ParamsError(f"calibration data '{path}' cannot be read: {err}", hint=_HINT) from err
    return check_samples(recorded, inputs, f"calibration data '{path}'")


def check_samples(
    recorded: Iterable[Mapping[str, NumpyArray]], inputs: Sequence[TensorSpec], origin: str
) -> Samples:
    """Return the samples with the model's inputs and nothing else.

    Args:
        recorded: Samples, each with its inputs by name.
        inputs: The model's inputs.
        origin: The start of error messages, such as ``calibration data 'c.npz'``.

    Raises:
        ParamsError: There is no sample, or one lacks an input or has another dtype or shape.
    """
    samples = [
        {spec.name: _array_for(spec, sample, origin) for spec in inputs} for sample in recorded
    ]
    if not samples:
        raise ParamsError(f"{origin} holds no sample", hint=_HINT)
    return samples


def _array_for(spec: TensorSpec, sample: Mapping[str, NumpyArray], origin: str) -> NumpyArray:
    if spec.name not in sample:
        raise ParamsError(f"{origin} lacks input '{spec.name}': it has {', '.join(sample)}")
    array = sample[spec.name]
    if array.dtype != numpy_dtype(spec.dtype):
        raise ParamsError(
            f"{origin} has dtype {array.dtype} for input '{spec.name}', wanted {spec.dtype}"
        )
    if not _shape_fits(array.shape, spec.dims):
        raise ParamsError(
            f"{origin} has shape {array.shape} for input '{spec.name}', wanted {spec.describe()}",
            hint=_HINT,
        )
    return array


def _shape_fits(shape: tuple[int, ...], dims: tuple[int | str, ...] | None) -> bool:
    if dims is None:
        return True
    return len(shape) == len(dims) and all(
        size == dim for size, dim in zip(shape, dims, strict=True) if isinstance(dim, int)
    )
