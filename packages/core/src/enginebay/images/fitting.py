"""A task held against the model that it is for, with the names that it left out."""

from __future__ import annotations

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
        _check_classes(task, output, extra=0)
        return msgspec.structs.replace(task, image=image, output=output.name)
    assert isinstance(task, ObjectDetection)
    for name in filter(None, (task.boxes, task.labels)):
        _named(name, outputs, "output")
    scores = _named(task.scores, outputs, "output")
    if not task.labels:
        _check_classes(task, scores, extra=1)
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


def _check_classes(task: Task, output: TensorSpec, *, extra: int) -> None:
    """Compare the number of names with the output's last size."""
    count, last = len(task.classes), output.dims[-1] if output.dims else None
    if count and isinstance(last, int) and not count <= last <= count + extra:
        raise UsageError(f"the task names {count} classes, and the output is {output.describe()}")
