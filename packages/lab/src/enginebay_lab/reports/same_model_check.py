"""Checks that artifacts are of the same model, by inputs, outputs and recorded samples."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from enginebay import Artifact, TensorSpec
    from enginebay.authors import Manifest, NumpyArray, Sample

#: The distance allowed between references of one model, relative to the sum of absolute values.
#: Different threads and processors change roundings by 1e-6; different weights change much more.
_MAX_RELATIVE_DISTANCE = 1e-2
_HINT = "report each model by itself"


class SameModelCheck:
    """Compares each artifact with the first one."""

    def __init__(self) -> None:
        self._path = ""
        self._manifest: Manifest | None = None
        self._recorded: dict[Hashable, tuple[str, dict[str, NumpyArray]]] = {}

    def check_artifact(self, artifact: Artifact) -> None:
        """Refuse an artifact of a different model.

        Not by the digest of the IR: every backend has its own export.

        Raises:
            UsageError: The model differs; the message names both artifacts and the difference.
        """
        path = str(artifact.path)
        self.check_manifest(path, artifact.manifest)
        for sample in artifact.samples():
            known, outputs = self._recorded.setdefault(_inputs_key(sample), (path, sample.outputs))
            if _do_outputs_differ(outputs, sample.outputs):
                raise UsageError(
                    f"'{known}' and '{path}' are not of the same model: their references recorded "
                    "different outputs for the same inputs, as with different weights",
                    hint=_HINT,
                )

    def check_manifest(self, path: str, manifest: Manifest) -> None:
        """Refuse a manifest of a different model, by its inputs and outputs."""
        if self._manifest is None:
            self._path, self._manifest = path, manifest
            return
        if difference := _describe_difference(self._manifest, manifest):
            raise UsageError(
                f"'{self._path}' and '{path}' are not of the same model: {difference}", hint=_HINT
            )


def _describe_difference(one: Manifest, other: Manifest) -> str:
    """Describe how inputs or outputs differ; empty if one model may have both."""
    for kind in ("inputs", "outputs"):
        ours, theirs = getattr(one, kind), getattr(other, kind)
        if [_spec_signature(spec) for spec in ours] != [_spec_signature(spec) for spec in theirs]:
            return f"their {kind} are {_list_specs(ours)} and {_list_specs(theirs)}"
    same_inputs = [spec.dims for spec in one.inputs] == [spec.dims for spec in other.inputs]
    if same_inputs and any(map(_sizes_differ, one.outputs, other.outputs)):
        return f"their outputs are {_list_specs(one.outputs)} and {_list_specs(other.outputs)}"
    return ""


def _spec_signature(spec: TensorSpec) -> tuple[str, int | None]:
    """Return the name and the number of axes: dtypes depend on engines, and sizes on users."""
    return spec.name, None if spec.dims is None else len(spec.dims)


def _sizes_differ(one: TensorSpec, other: TensorSpec) -> bool:
    """Return true if a size is fixed in both specs, and differs."""
    both = zip(one.dims or (), other.dims or (), strict=True)
    return any(a != b for a, b in both if isinstance(a, int) and isinstance(b, int))


def _list_specs(specs: tuple[TensorSpec, ...]) -> str:
    return ", ".join(spec.describe() for spec in specs) or "none"


def _inputs_key(sample: Sample) -> Hashable:
    """Return a hashable key of the inputs: many artifacts share the probe of zeros."""
    return tuple(
        (name, array.dtype.name, array.shape, _digest_array(array))
        for name, array in sorted(sample.inputs.items())
    )


def _digest_array(array: NumpyArray) -> bytes:
    # 0 for -0: the probe of zeros has the signs of the example.
    data = (array + array.dtype.type(0)).tobytes()
    return blake2b(data, digest_size=16).digest()


def _do_outputs_differ(ours: Mapping[str, NumpyArray], theirs: Mapping[str, NumpyArray]) -> bool:
    """Return true if outputs for the same inputs are far apart."""
    return any(_is_far_apart(ours[name], theirs[name]) for name in ours.keys() & theirs.keys())


def _is_far_apart(one: NumpyArray, other: NumpyArray) -> bool:
    if one.shape != other.shape:
        return True
    with np.errstate(all="ignore"):  # a value may be infinite
        first, second = one.astype(np.complex128), other.astype(np.complex128)
        apart = np.abs(first - second)
        finite = np.isfinite(apart)
        return bool(np.sum(apart[finite]) > _MAX_RELATIVE_DISTANCE * np.sum(np.abs(first[finite])))
