"""The inputs that a deployment is compared on, with the reference's outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import EnginebayError, ModelError
from enginebay.models import extreme_shapes
from enginebay.tensors import Sample, resize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay.models import BoundModel
    from enginebay.tensors import NumpyArray
    from enginebay.verification.reference import Reference


def reference_samples(model: BoundModel, reference: Reference) -> tuple[list[Sample], str]:
    """Record what the reference gives, before any rewriter touches the model.

    Otherwise a wrong rewriter would verify itself.

    Returns:
        The example inputs, and the same at the smallest and the largest sizes, each with its
        outputs; and why there are no outputs, where nothing can give any.

    Raises:
        ModelError: The model does not run at a size that should be open.
    """
    if model.signature is not None:
        return list(_samples(model)), ""
    try:
        outputs = reference.outputs(model.examples)
    except EnginebayError as err:
        return [Sample(model.examples, {})], str(err)
    return [Sample(model.examples, outputs)], ""


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
