"""Quantisation to int8 by NNCF, calibrated with recorded inputs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.authors import load_inputs, numpy_dtype, quiet
from enginebay.errors import ArtifactError, ConversionError, MissingDependencyError, ParamsError
from enginebay_openvino.dtypes import dtype_name
from enginebay_openvino.reasons import reason

if TYPE_CHECKING:
    import openvino as ov

    from enginebay.authors import NumpyArray
    from enginebay_openvino.params import OpenvinoParams

_HINT = "numpy.savez('calibration.npz', x=inputs), where inputs[0] is the first whole input"


def check_int8(params: OpenvinoParams) -> None:
    """Check that int8 has what it needs, before any work is done.

    Raises:
        ParamsError: There is no calibration data.
        MissingDependencyError: NNCF is not installed.
    """
    if not params.calibration:
        raise ParamsError(
            "precision int8 needs calibration data", hint="--calibration recorded-inputs.npz"
        )
    if not Path(params.calibration).is_file():
        raise ParamsError(f"calibration data '{params.calibration}' is not a file", hint=_HINT)
    if find_spec("nncf") is None:
        raise MissingDependencyError(
            "precision int8 needs NNCF, which is not installed",
            hint="pip install 'enginebay-openvino[int8]'",
        )


def quantize(model: ov.Model, params: OpenvinoParams) -> ov.Model:
    """Return the network with 8-bit layers wherever NNCF puts them.

    Raises:
        ParamsError: The calibration data does not fit the network's inputs.
        ConversionError: NNCF failed.
    """
    assert params.calibration is not None
    samples = _load(Path(params.calibration), model)
    with quiet():  # NNCF draws progress bars on standard output
        import nncf

        try:
            return nncf.quantize(model, nncf.Dataset(samples), subset_size=len(samples))
        except Exception as err:
            raise ConversionError(f"NNCF cannot quantise the model: {reason(err)}") from err


def _load(path: Path, model: ov.Model) -> list[list[NumpyArray]]:
    """Load the samples, each a list of arrays in the order of the network's inputs."""
    recorded = _read(path)
    samples = [[_array_for(port, sample, path) for port in model.inputs] for sample in recorded]
    if not samples:
        raise ParamsError(f"calibration data '{path}' holds no sample", hint=_HINT)
    return samples


def _read(path: Path) -> list[dict[str, NumpyArray]]:
    try:
        return load_inputs(path)
    except ArtifactError as err:
        raise ParamsError(f"calibration data '{path}' cannot be read: {err}", hint=_HINT) from err


def _array_for(port: Any, sample: dict[str, NumpyArray], path: Path) -> NumpyArray:
    """Return a sample's array for one input of the network, with the right shape and dtype."""
    import openvino as ov

    (name,) = port.names
    if name not in sample:
        raise ParamsError(
            f"calibration data '{path}' lacks input '{name}': it has {', '.join(sample)}"
        )
    array, dtype = sample[name], dtype_name(port.element_type)
    if not port.partial_shape.compatible(ov.PartialShape(array.shape)):
        raise ParamsError(
            f"calibration data '{path}' has shape {array.shape} for input '{name}', "
            f"wanted {port.partial_shape}",
            hint=_HINT,
        )
    if array.dtype != numpy_dtype(dtype):
        raise ParamsError(
            f"calibration data '{path}' has dtype {array.dtype} for input '{name}', wanted {dtype}"
        )
    return array
