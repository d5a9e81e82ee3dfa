"""Recorded inputs with the outputs of the unpatched model for them, in one ``.npz`` file.

An artifact carries them, so that it can be verified again on another machine, without the model
and without torch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np

from enginebay.errors import ArtifactError
from enginebay.tensors.arrays import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from enginebay.tensors.arrays import NumpyArray

_KEY = re.compile(r"(\d+)/(probe-)?(inputs|outputs)/(.*):([a-z0-9_]+)", re.DOTALL)


class Sample(NamedTuple):
    """One set of inputs and the outputs that belong to it.

    Attributes:
        inputs: Arrays by name.
        outputs: Likewise.
        is_probe: True for inputs made up to try an artifact with, which resemble no real ones.
    """

    inputs: dict[str, NumpyArray]
    outputs: dict[str, NumpyArray]
    is_probe: bool = False


def save_samples(path: Path, samples: Iterable[Sample]) -> None:
    """Write the samples to ``path``, which must end with ``.npz``."""
    arrays = {}
    for number, sample in enumerate(samples):
        kind = "probe-" if sample.is_probe else ""
        for group, values in (("inputs", sample.inputs), ("outputs", sample.outputs)):
            for name, array in values.items():
                arrays[f"{number}/{kind}{group}/{name}:{array.dtype.name}"] = _storable(array)
    save_arrays(path, arrays)


def save_arrays(path: Path, arrays: Mapping[str, NumpyArray]) -> None:
    """Write an ``.npz`` with any names in it: ``numpy.savez`` takes none called ``file``."""
    with ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)


def load_samples(path: Path) -> list[Sample]:
    """Read a file of :func:`save_samples`.

    Raises:
        ArtifactError: The file is something else, or damaged. Nothing is unpickled.
    """
    samples: dict[int, Sample] = {}
    try:
        # Opened here: NumPy leaves the file open where it is no zip archive.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            for key in file.files:
                number, is_probe, group, name, dtype = _parse_key(key)
                sample = samples.setdefault(number, Sample({}, {}, is_probe))
                array = file[key]
                getattr(sample, group)[name] = _restored(array, dtype)
    except (OSError, ValueError, EOFError, TypeError, AttributeError, BadZipFile) as err:
        raise ArtifactError(f"'{path.name}' does not hold recorded samples: {err}") from err
    return [samples[number] for number in sorted(samples)]


def _parse_key(key: str) -> tuple[int, bool, str, str, str]:
    match = _KEY.fullmatch(key)
    if match is None:
        raise ValueError(f"unexpected entry '{key}'")
    number, probe, group, name, dtype = match.groups()
    return int(number), bool(probe), group, name, dtype


def _storable(array: NumpyArray) -> NumpyArray:
    # NumPy's file format knows no bfloat16 or float8: their bits are kept under an integer dtype.
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def _restored(array: NumpyArray, dtype: str) -> NumpyArray:
    return array if array.dtype.name == dtype else array.view(numpy_dtype(dtype))


def load_inputs(path: Path) -> list[dict[str, NumpyArray]]:
    """Read recorded inputs without outputs, as calibration needs them.

    Args:
        path: A file of :func:`save_samples`, whose probes are left out, or an ``.npz`` file with
            one array for each input whose entries along the first axis are one sample each:
            ``numpy.savez(path, x=inputs)``, where ``inputs[0]`` is the first whole input.

    Returns:
        One dict of inputs by name for each sample.

    Raises:
        ArtifactError: The file is something else, or damaged. Nothing is unpickled.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "recorded.npz")
        ...     np.savez(path, x=np.zeros((5, 1, 3)))
        ...     samples = load_inputs(path)
        >>> len(samples), samples[0]["x"].shape
        (5, (1, 3))
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            if any(_KEY.fullmatch(key) for key in file.files):
                return [sample.inputs for sample in load_samples(path) if not sample.is_probe]
            stacks = {name: np.atleast_1d(file[name]) for name in file.files}
    except (OSError, ValueError, EOFError, TypeError, AttributeError, BadZipFile) as err:
        raise ArtifactError(f"'{path.name}' does not hold recorded inputs: {err}") from err
    count = min(map(len, stacks.values()), default=0)
    return [{name: stack[n] for name, stack in stacks.items()} for n in range(count)]
