"""Checks that artifacts are of the same model, by their inputs, outputs and recorded samples."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from enginebay import Artifact, TensorSpec
    from enginebay.authors.arrays import NumpyArray, Sample
    from enginebay.authors.artifacts import Manifest

#: The allowed distance between two references' outputs, relative to the sum of absolute values.
#: Different threads and processors change roundings by 1e-6; different weights change much more.
_MAX_RELATIVE_DISTANCE = 1e-2
_HINT = "make a separate report for each model"


class SameModelCheck:
    """Checks that each artifact is of the same model as the artifacts that were checked earlier."""

    def __init__(self) -> None:
        self._path = ""
        self._manifest: Manifest | None = None
        self._recorded: dict[Hashable, tuple[str, dict[str, NumpyArray]]] = {}

    def check_artifact(self, artifact: Artifact) -> None:
        """Check that an artifact is of the same model as the earlier artifacts, if there are any.

        Raises:
            UsageError: The model differs; the message names both artifacts and the difference.
        """
        # Not by the digest of the IR: every backend has a different export.
        path = str(artifact.path)
        self.check_manifest(path, artifact.manifest)
        for sample in artifact.samples():
            # Compared with the first artifact that recorded the same inputs.
            known, outputs = self._recorded.setdefault(_inputs_key(sample), (path, sample.outputs))
            if _do_outputs_differ(outputs, sample.outputs):
                raise UsageError(
                    f"'{known}' and '{path}' are not of the same model: the reference "
                    "outputs recorded for the same inputs differ, so the weights may differ",
                    hint=_HINT,
                )

    def check_manifest(self, path: str, manifest: Manifest) -> None:
        """Check that a manifest's inputs and outputs fit the model of the earlier artifacts.

        Raises:
            UsageError: The inputs or outputs are those of a different model.
        """
        if self._manifest is None:
            self._path, self._manifest = path, manifest
            return
        if difference := _describe_difference(self._manifest, manifest):
            raise UsageError(
                f"'{self._path}' and '{path}' are not of the same model: {difference}", hint=_HINT
            )


def _describe_difference(first: Manifest, second: Manifest) -> str:
    """Return how inputs or outputs differ; empty if the manifests may be of the same model."""
    for kind in ("inputs", "outputs"):
        ours, theirs = getattr(first, kind), getattr(second, kind)
        if [_spec_signature(spec) for spec in ours] != [_spec_signature(spec) for spec in theirs]:
            return f"their {kind} are {_list_specs(ours)} and {_list_specs(theirs)}"
    same_inputs = [spec.dims for spec in first.inputs] == [spec.dims for spec in second.inputs]
    if same_inputs and any(map(_sizes_differ, first.outputs, second.outputs)):
        return f"their outputs are {_list_specs(first.outputs)} and {_list_specs(second.outputs)}"
    return ""


def _spec_signature(spec: TensorSpec) -> tuple[str, int | None]:
    # Without the dtype, which depends on the engine, and sizes, which depend on the user.
    return spec.name, None if spec.dims is None else len(spec.dims)


def _sizes_differ(first: TensorSpec, second: TensorSpec) -> bool:
    """Return true if the specs have different fixed sizes in some dimension."""
    both = zip(first.dims or (), second.dims or (), strict=True)
    return any(a != b for a, b in both if isinstance(a, int) and isinstance(b, int))


def _list_specs(specs: tuple[TensorSpec, ...]) -> str:
    return ", ".join(spec.describe() for spec in specs) or "none"


def _inputs_key(sample: Sample) -> Hashable:
    """Return a hashable key of the inputs, which is the same for equal inputs."""
    return tuple(
        (name, array.dtype.name, array.shape, _digest_array(array))
        for name, array in sorted(sample.inputs.items())
    )


def _digest_array(array: NumpyArray) -> bytes:
    # 0 for -0: a sample of zeros, which many artifacts have, has the signs of the example.
    data = (array + array.dtype.type(0)).tobytes()
    return blake2b(data, digest_size=16).digest()


def _do_outputs_differ(ours: Mapping[str, NumpyArray], theirs: Mapping[str, NumpyArray]) -> bool:
    """Return True if recorded outputs for the same inputs differ so much that the models differ."""
    return any(_is_far_apart(ours[name], theirs[name]) for name in ours.keys() & theirs.keys())


def _is_far_apart(ours: NumpyArray, theirs: NumpyArray) -> bool:
    if ours.shape != theirs.shape:
        return True
    with np.errstate(all="ignore"):  # a value may be infinite
        # Outputs may be complex, and differences of unsigned integers would wrap around.
        first, second = ours.astype(np.complex128), theirs.astype(np.complex128)
        distances = np.abs(first - second)
        finite = np.isfinite(distances)
        limit = _MAX_RELATIVE_DISTANCE * np.sum(np.abs(first[finite]))
        return bool(np.sum(distances[finite]) > limit)
