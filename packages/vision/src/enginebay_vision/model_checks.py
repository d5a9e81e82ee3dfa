"""Checks that a task fits a model's inputs and outputs."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay import TensorSpec
    from enginebay_vision.image_input import ImageInput


def find_spec(name: str, specs: Sequence[TensorSpec], kind: str) -> TensorSpec:
    """Return the spec named ``name``, or the first spec if ``name`` is empty.

    Raises:
        UsageError: The model has no input or output (``kind``) of this name.
    """
    known = {spec.name: spec for spec in specs}
    if not name:
        return specs[0]
    if name not in known:
        raise UsageError(
            f"unknown {kind} '{name}' in the task; available: {', '.join(known)}",
            hint=did_you_mean(name, known),
        )
    return known[name]


def fit_image(image: ImageInput, spec: TensorSpec) -> ImageInput:
    """Return a copy of the preprocessing that has the name and dtype of a model's input.

    Raises:
        UsageError: Preprocessed images would not fit the input.
    """
    if image.dtype and image.dtype != spec.dtype:
        raise UsageError(
            f"the task converts images to {image.dtype}, but the input is {spec.describe()}",
            hint=f"set dtype='{spec.dtype}' in the task, or remove 'dtype'",
        )
    if not spec.dtype.startswith(("float", "bfloat")) and spec.dtype != "uint8":
        raise UsageError(
            f"images cannot be converted to the input {spec.describe()}; expected floats or uint8"
        )
    if spec.dims is not None:
        _check_dims(image, spec, spec.dims)
    return msgspec.structs.replace(image, input=spec.name, dtype=spec.dtype)


def _check_dims(image: ImageInput, spec: TensorSpec, dims: Sequence[int | str]) -> None:
    if len(dims) != 4:
        raise UsageError(
            f"the task converts images to tensors with four axes, {image.layout}, but the input "
            f"is {spec.describe()}"
        )
    sizes = dict(zip(image.layout, dims, strict=True))  # texts are dimensions of any size
    if isinstance(sizes["C"], int) and sizes["C"] != len(image.channels):
        raise UsageError(
            f"the task has {len(image.channels)} channels, {image.channels}, at axis "
            f"{image.layout.index('C')}, but the input is {spec.describe()}",
            hint="check 'channels' and 'layout' of the task",
        )
    if not (isinstance(sizes["H"], int) and isinstance(sizes["W"], int)):
        return  # a dynamic size accepts every image
    if image.size != (sizes["H"], sizes["W"]):
        produced = "different sizes" if image.size is None else f"{image.size[0]}x{image.size[1]}"
        raise UsageError(
            f"the task's steps produce images of {produced}, but the input is {spec.describe()}",
            hint=f"add vision.Crop({sizes['H']}, {sizes['W']}) as the last step",
        )


def check_classes(
    classes: Sequence[str], output: TensorSpec, sizes: Sequence[int | str], *, extra: int
) -> None:
    """Check that an output has a score for each class name, and at most ``extra`` more scores.

    Args:
        classes: The class names; nothing is checked if they are empty.
        output: The spec of the output, which the error message describes.
        sizes: The sizes of the axes that contain the scores; nothing is checked if a size is
            dynamic.
        extra: The maximum number of additional scores.

    Raises:
        UsageError: The output has a wrong number of scores.
    """
    known = [size for size in sizes if isinstance(size, int)]
    if not (classes and known and len(known) == len(sizes)):
        return
    count = len(classes)
    if not count <= prod(known) <= count + extra:
        raise UsageError(f"the task has {count} classes, but the output is {output.describe()}")


def check_maps(output: TensorSpec, dims: Sequence[int | str], *layouts: tuple[str, str]) -> None:
    """Check that an output has as many axes as one of the layouts.

    A layout consists of a name for error messages and of a letter for each axis, such as ``NChw``.

    Raises:
        UsageError: The output has a different number of axes.
    """
    if len(dims) not in [len(axes) for _, axes in layouts]:
        listed = " or ".join(f"{name}, {'x'.join(axes)}" for name, axes in layouts)
        raise UsageError(f"the task expects {listed}, but the output is {output.describe()}")
