"""Parts of a task held against the model that it is for, with the names that they left out."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import UsageError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay import TensorSpec
    from enginebay_vision.image_input import ImageInput


def find_spec(name: str, specs: Sequence[TensorSpec], kind: str) -> TensorSpec:
    """Find the input or output of this name; without a name the first one.

    Raises:
        UsageError: There is none of this name.
    """
    known = {spec.name: spec for spec in specs}
    if not name:
        return specs[0]
    if name not in known:
        close = nearest(name, known)
        raise UsageError(
            f"the task means the {kind} '{name}', and the model has {', '.join(known)}",
            hint=f"did you mean '{close}'?" if close else None,
        )
    return known[name]


def fit_image(image: ImageInput, spec: TensorSpec) -> ImageInput:
    """Check that what is made of a picture fits an input, and fill in its name and dtype.

    Raises:
        UsageError: It does not.
    """
    if image.dtype and image.dtype != spec.dtype:
        raise UsageError(
            f"the task makes {image.dtype} of a picture, and the input is {spec.describe()}",
            hint=f"dtype='{spec.dtype}', or leave it out",
        )
    if not spec.dtype.startswith(("float", "bfloat")) and spec.dtype != "uint8":
        raise UsageError(f"no picture fits the input {spec.describe()}; wanted floats or uint8")
    if spec.dims is not None:
        _check_dims(image, spec, spec.dims)
    return msgspec.structs.replace(image, input=spec.name, dtype=spec.dtype)


def _check_dims(image: ImageInput, spec: TensorSpec, dims: Sequence[int | str]) -> None:
    if len(dims) != 4:
        raise UsageError(
            f"the task makes a tensor with four axes, {image.layout}, of a picture, and the input "
            f"is {spec.describe()}"
        )
    wanted = dict(zip(image.layout, dims, strict=True))
    if isinstance(wanted["C"], int) and wanted["C"] != len(image.channels):
        raise UsageError(
            f"the task makes {len(image.channels)} channels, {image.channels}, at axis "
            f"{image.layout.index('C')}, and the input is {spec.describe()}",
            hint="look at channels and layout",
        )
    if not (isinstance(wanted["H"], int) and isinstance(wanted["W"], int)):
        return
    if image.size != (wanted["H"], wanted["W"]):
        found = "no single size" if image.size is None else f"{image.size[0]}x{image.size[1]}"
        raise UsageError(
            f"the task's steps lead to {found}, and the input is {spec.describe()}",
            hint=f"end with vision.Crop({wanted['H']}, {wanted['W']})",
        )


def check_classes(
    classes: Sequence[str], output: TensorSpec, sizes: Sequence[int | str], *, extra: int
) -> None:
    """Compare the number of names with that of an output's numbers for them.

    Raises:
        UsageError: They differ.
    """
    known = [size for size in sizes if isinstance(size, int)]
    if not (classes and known and len(known) == len(sizes)):
        return
    count = len(classes)
    if not count <= prod(known) <= count + extra:
        raise UsageError(f"the task names {count} classes, and the output is {output.describe()}")


def check_maps(output: TensorSpec, dims: Sequence[int | str], *wanted: tuple[str, str]) -> None:
    """Refuse an output that has not as many axes as maps have.

    Args:
        output: The output.
        dims: Its dimensions.
        wanted: What it may be, and a letter for each axis.

    Raises:
        UsageError: It is none of them.
    """
    if len(dims) not in [len(axes) for _, axes in wanted]:
        listed = " or ".join(f"{name}, {'x'.join(axes)}" for name, axes in wanted)
        raise UsageError(f"the task wants {listed}, and the output is {output.describe()}")
