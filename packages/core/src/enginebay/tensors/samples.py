"""Recorded inputs with the outputs of the unpatched model for them, in one ``.npz`` file.

An artifact carries them, so that it can be verified again on another machine, without the model
and without torch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast
from zipfile import BadZipFile, ZipFile

import numpy as np

from enginebay.errors import ArtifactError
from enginebay.tensors.arrays import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from enginebay.tensors.arrays import NumpyArray

_KEY = re.compile(
    r"(\d+)/(?:(item|probe|non_finite)-)?(inputs|outputs)/(.*):([a-z0-9_]+)", re.DOTALL
)


SampleKind: TypeAlias = Literal["example", "item", "probe", "non_finite"]


class Sample(NamedTuple):
    """One set of inputs and the outputs that belong to it.

    Attributes:
        inputs: Arrays by name.
        outputs: Likewise.
        kind: ``example`` for what the caller gave, at every size; ``item`` for an entry of a data
            set; ``probe`` for inputs made up to try an artifact with, which resemble no real ones;
            ``non_finite`` for the example with NaN and infinity, where an artifact may differ.
    """

    inputs: dict[str, NumpyArray]
    outputs: dict[str, NumpyArray]
    kind: SampleKind = "example"


def save_samples(path: Path, samples: Iterable[Sample]) -> None:
    """Write the samples to ``path``, which must end with ``.npz``."""
    arrays = {}
    for number, sample in enumerate(samples):
        kind = "" if sample.kind == "example" else f"{sample.kind}-"
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
                number, kind, group, name, dtype = _parse_key(key)
                sample = samples.setdefault(number, Sample({}, {}, kind))
                array = file[key]
                getattr(sample, group)[name] = _restored(array, dtype)
    except (OSError, ValueError, EOFError, TypeError, AttributeError, BadZipFile) as err:
        raise ArtifactError(f"'{path.name}' does not hold recorded samples: {err}") from err
    return [samples[number] for number in sorted(samples)]


def _parse_key(key: str) -> tuple[int, SampleKind, str, str, str]:
    match = _KEY.fullmatch(key)
    if match is None:
        raise ValueError(f"unexpected entry '{key}'")
    number, kind, group, name, dtype = match.groups()
    return int(number), cast("SampleKind", kind or "example"), group, name, dtype


def _storable(array: NumpyArray) -> NumpyArray:
    # NumPy's file format knows no bfloat16 or float8: their bits are kept under an integer dtype.
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def _restored(array: NumpyArray, dtype: str) -> NumpyArray:
    return array if array.dtype.name == dtype else array.view(numpy_dtype(dtype))


def is_recorded(path: Path) -> bool:
    """True for a file of :func:`save_samples`; False for another ``.npz`` file.

    Raises:
        OSError: It cannot be read.
        BadZipFile: It is no ``.npz`` file.
    """
    with ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    return any(_KEY.fullmatch(name) for name in names)
