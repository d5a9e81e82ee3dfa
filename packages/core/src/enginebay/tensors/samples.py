"""Recorded samples: inputs and the original model's outputs for them, in one ``.npz`` file.

An artifact contains its samples, so that it can be verified on another machine without the model
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
    from typing import BinaryIO

    from enginebay.tensors.arrays import NumpyArray

#: An array's name in the file: ``0/inputs/x:float32``, ``1/probe-outputs/y:bfloat16``.
#: DOTALL, since the name of a tensor may contain a line break.
_KEY = re.compile(
    r"(\d+)/(?:(item|probe|non_finite)-)?(inputs|outputs)/(.*):([a-z0-9_]+)", re.DOTALL
)


SampleKind: TypeAlias = Literal["example", "item", "probe", "non_finite"]


class Sample(NamedTuple):
    """One set of inputs and the original model's outputs for them.

    Attributes:
        inputs: Input name → array.
        outputs: Output name → array.
        kind: ``example``: the caller's example, or inputs of other sizes that the model must
            accept.
            ``item``: an item of a data set.
            ``probe``: generated inputs, similar to the example.
            ``non_finite``: the example with NaN, infinity and integers beyond 2³¹, for which an
            artifact's outputs may differ from the model's.
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
                dtype = "string" if array.dtype.kind in "OU" else array.dtype.name
                arrays[f"{number}/{kind}{group}/{name}:{dtype}"] = _to_builtin_dtype(array)
    save_arrays(path, arrays)


def save_arrays(file: Path | BinaryIO, arrays: Mapping[str, NumpyArray]) -> None:
    """Write an ``.npz`` file; unlike ``numpy.savez``, this accepts texts, and the name ``file``."""
    with ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            # An entry's size is unknown when it is opened, and may exceed 2 GiB.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                array = np.asarray(array)
                # Objects could only be pickled.
                stored = array.astype(str) if array.dtype == object else array
                np.lib.format.write_array(stream, stored, allow_pickle=False)


def load_samples(path: Path) -> list[Sample]:
    """Read a file that :func:`save_samples` wrote. Nothing is unpickled.

    Raises:
        ArtifactError: The file is damaged or was not written by :func:`save_samples`.
    """
    samples: dict[int, Sample] = {}
    try:
        # Opened here, since np.load(path) leaves the file open if it is not a zip archive.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            for key in file.files:
                number, kind, group, name, dtype = _parse_key(key)
                sample = samples.setdefault(number, Sample({}, {}, kind))
                array = file[key]
                getattr(sample, group)[name] = _restore_dtype(array, dtype)
    except (OSError, ValueError, EOFError, TypeError, AttributeError, BadZipFile) as err:
        raise ArtifactError(f"'{path.name}' does not contain recorded samples: {err}") from err
    return [samples[number] for number in sorted(samples)]


def _parse_key(key: str) -> tuple[int, SampleKind, str, str, str]:
    match = _KEY.fullmatch(key)
    if match is None:
        raise ValueError(f"unexpected entry '{key}'")
    number, kind, group, name, dtype = match.groups()
    return int(number), cast("SampleKind", kind or "example"), group, name, dtype


def _to_builtin_dtype(array: NumpyArray) -> NumpyArray:
    # NumPy's file format has no bfloat16 or float8: their bits are stored as unsigned integers.
    is_stored = array.dtype.kind in "OU" or array.dtype.isbuiltin == 1
    return array if is_stored else array.view(f"u{array.dtype.itemsize}")


def _restore_dtype(array: NumpyArray, dtype: str) -> NumpyArray:
    if dtype == "string":
        return array.astype(object)
    return array if array.dtype.name == dtype else array.view(numpy_dtype(dtype))


def is_recorded(path: Path) -> bool:
    """Return True if :func:`save_samples` wrote this ``.npz`` file.

    Raises:
        OSError: The file cannot be read.
        BadZipFile: The file is not an ``.npz`` file.
    """
    with ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    return any(_KEY.fullmatch(name) for name in names)
