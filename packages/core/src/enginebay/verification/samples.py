"""The inputs that a deployment is compared on, with the reference's outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from enginebay.errors import EnginebayError, ModelError
from enginebay.models import extreme_shapes
from enginebay.tensors import Sample, resize
from enginebay.verification.reference import reference_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay.models import BoundModel
    from enginebay.tensors import NumpyArray


@dataclass(frozen=True)
class RecordedReference:
    """The reference's outputs, recorded.

    Attributes:
        description: Its name in the verdict: ``the PyTorch model, unpatched``.
        samples: The example inputs, and the same at the smallest and the largest sizes, with
            their outputs; without outputs where something is missing.
        missing: Why nothing can give any outputs; empty where they are there.
    """

    description: str
    samples: tuple[Sample, ...]
    missing: str = ""


def record_reference(model: BoundModel, backend: str) -> RecordedReference:
    """Record what the model gives, before any rewriter touches it.

    Otherwise a wrong rewriter would verify itself.

    Args:
        model: The model.
        backend: The engine that is to be verified, which cannot vouch for itself.

    Raises:
        ModelError: The model does not run at a size that should be open.
    """
    reference = reference_for(model, backend)
    if model.signature is not None:
        return RecordedReference(reference.description, tuple(_samples(model)))
    try:
        outputs = reference.outputs(model.examples)
    except EnginebayError as err:
        return RecordedReference(
            reference.description, (Sample(model.examples, {}),), missing=str(err)
        )
    return RecordedReference(reference.description, (Sample(model.examples, outputs),))


def _samples(model: BoundModel) -> Iterator[Sample]:
    yield Sample(model.examples, model.example_outputs())
    for shapes in extreme_shapes(model.dynamic, model.inputs):
        resized = {name: resize(array, shapes[name]) for name, array in model.examples.items()}
        yield Sample(resized, _outputs_at(model, resized, shapes))


def _outputs_at(
    model: BoundModel, inputs: dict[str, NumpyArray], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, NumpyArray]:
    """The outputs at sizes that the caller did not pass: an error must name them."""
    try:
        return model.run(inputs)
    except ModelError as err:
        sizes = ",".join(f"{name}:{'x'.join(map(str, s))}" for name, s in shapes.items())
        raise ModelError(
            f"at the sizes {sizes}, which should be open, {err}",
            hint="keep the smallest and the largest sizes to what the model takes",
        ) from err
