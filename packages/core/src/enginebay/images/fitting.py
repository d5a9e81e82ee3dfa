"""A task held against the model that it is for, with the names that it left out."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import UsageError, nearest
from enginebay.images.classification import ImageClassification
from enginebay.images.detection import ObjectDetection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.images.image_input import ImageInput
    from enginebay.images.task import Task
    from enginebay.tensors import TensorSpec


def fit_task(task: Task, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Task:
    """Check that a task fits a model, and fill in the names and the dtype that it left out.

    Args:
        task: The task.
        inputs: The model's inputs.
        outputs: Its outputs.

    Raises:
        UsageError: It does not; the message says where.
    """
    spec = _named(task.image.input, inputs, "input")
    image = _fit_image(task.image, spec)
    if isinstance(task, ImageClassification):
        output = _named(task.output, outputs, "output")
        dims = output.dims or ()
        _check_classes(task, output, dims[1:] or dims, extra=0)
        return msgspec.structs.replace(task, image=image, output=output.name)
    assert isinstance(task, ObjectDetection)
    boxes = _named(task.boxes, outputs, "output")
    if boxes.dims and isinstance(boxes.dims[-1], int) and boxes.dims[-1] != 4:
        raise UsageError(
            f"the task wants four numbers for each box, and the output is {boxes.describe()}"
        )
    scores = _named(task.scores, outputs, "output")
    if task.labels:
        _named(task.labels, outputs, "output")
    else:
        _check_classes(task, scores, (scores.dims or ())[-1:], extra=1)
    return msgspec.structs.replace(task, image=image)


def _named(name: str, specs: Sequence[TensorSpec], kind: str) -> TensorSpec:
    """The input or output of this name; without a name the first one."""
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


def _fit_image(image: ImageInput, spec: TensorSpec) -> ImageInput:
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
            hint=f"end with eb.Crop({wanted['H']}, {wanted['W']})",
        )


def _check_classes(
    task: Task, output: TensorSpec, sizes: Sequence[int | str], *, extra: int
) -> None:
    """Compare the number of names with that of an output's numbers for them."""
    known = [size for size in sizes if isinstance(size, int)]
    if not (task.classes and known and len(known) == len(sizes)):
        return
    count = len(task.classes)
    if not count <= prod(known) <= count + extra:
        raise UsageError(f"the task names {count} classes, and the output is {output.describe()}")
