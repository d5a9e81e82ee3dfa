"""The rule by which artifacts are of one model: their inputs and outputs, and recorded samples."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from enginebay import Artifact, TensorSpec
    from enginebay.authors import Manifest, NumpyArray, Sample

#: How far references of one model may lie apart, as a part of their length. Other threads and
#: other processors round otherwise: by 1e-6. Other weights change a result by much more.
_APART = 1e-2
_HINT = "report each model by itself"


class OneModel:
    """Compares each artifact with the first one."""

    def __init__(self) -> None:
        self._path = ""
        self._manifest: Manifest | None = None
        self._recorded: dict[Hashable, tuple[str, dict[str, NumpyArray]]] = {}

    def check(self, artifact: Artifact) -> None:
        """Refuse an artifact of another model.

        The digest of the IR would say nothing: every backend has an export of its own.

        Raises:
            UsageError: Names both artifacts and the difference.
        """
        path = str(artifact.path)
        self.check_manifest(path, artifact.manifest)
        for sample in artifact.samples():
            known, outputs = self._recorded.setdefault(_key(sample), (path, sample.outputs))
            if _contradict(outputs, sample.outputs):
                raise UsageError(
                    f"'{known}' and '{path}' are not of one model: their references recorded "
                    "other outputs for the same inputs, as with other weights",
                    hint=_HINT,
                )

    def check_manifest(self, path: str, manifest: Manifest) -> None:
        """The same without the recorded samples."""
        if self._manifest is None:
            self._path, self._manifest = path, manifest
            return
        if found := _difference(self._manifest, manifest):
            raise UsageError(
                f"'{self._path}' and '{path}' are not of one model: {found}", hint=_HINT
            )


def _difference(one: Manifest, other: Manifest) -> str:
    """Say in what the inputs or outputs differ; empty where one model may have both."""
    for kind in ("inputs", "outputs"):
        ours, theirs = getattr(one, kind), getattr(other, kind)
        if [_signature(spec) for spec in ours] != [_signature(spec) for spec in theirs]:
            return f"their {kind} are {_described(ours)} and {_described(theirs)}"
    same_inputs = [spec.dims for spec in one.inputs] == [spec.dims for spec in other.inputs]
    if same_inputs and any(map(_sizes_differ, one.outputs, other.outputs)):
        return f"their outputs are {_described(one.outputs)} and {_described(other.outputs)}"
    return ""


def _signature(spec: TensorSpec) -> tuple[str, int | None]:
    """The name and the number of axes: engines have dtypes of their own, and sizes are chosen."""
    return spec.name, None if spec.dims is None else len(spec.dims)


def _sizes_differ(one: TensorSpec, other: TensorSpec) -> bool:
    """True where a size is fixed in both, and another one."""
    both = zip(one.dims or (), other.dims or (), strict=True)
    return any(a != b for a, b in both if isinstance(a, int) and isinstance(b, int))


def _described(specs: tuple[TensorSpec, ...]) -> str:
    return ", ".join(spec.describe() for spec in specs) or "none"


def _key(sample: Sample) -> Hashable:
    """The inputs, as something that can be looked up: many artifacts share the probe of zeros."""
    return tuple(
        (name, array.dtype.name, array.shape, blake2b(_plain(array), digest_size=16).digest())
        for name, array in sorted(sample.inputs.items())
    )


def _plain(array: NumpyArray) -> bytes:
    """The values, with 0 for -0: zeros are made of an example, and have its signs."""
    data: bytes = (array + array.dtype.type(0)).tobytes()
    return data


def _contradict(ours: Mapping[str, NumpyArray], theirs: Mapping[str, NumpyArray]) -> bool:
    """True where outputs of the same inputs are far apart."""
    return any(_far(ours[name], theirs[name]) for name in ours.keys() & theirs.keys())


def _far(one: NumpyArray, other: NumpyArray) -> bool:
    if one.shape != other.shape:
        return True
    with np.errstate(all="ignore"):  # an output may overflow
        first, second = one.astype(np.complex128), other.astype(np.complex128)
        apart = np.abs(first - second)
        finite = np.isfinite(apart)
        return bool(np.sum(apart[finite]) > _APART * np.sum(np.abs(first[finite])))
