"""The PyTorch model with which artifacts are compared."""

from __future__ import annotations

import inspect
from contextlib import contextmanager, nullcontext
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.authors.arrays import is_torch, to_numpy
from enginebay.authors.sources import digest_weights, find_model, reference_model, unchanged
from enginebay.errors import InputError, ModelError, UsageError
from enginebay_lab.evaluation.batches import read_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay.authors.arrays import NumpyArray
    from enginebay.authors.sources import Item, ModelSource
    from enginebay_lab.evaluation.evaluation_run import EvaluationRun
    from enginebay_lab.evaluation.evaluation_subjects import EvaluationSubject

    #: Runs a model on one item's inputs, and returns its outputs.
    Runner = Callable[[Mapping[str, NumpyArray]], dict[str, NumpyArray]]

#: Up to these sizes of the model and of an item, PyTorch runs in one thread: there is no work for
#: more threads, and the engines use the other cores. The limits are sizes, not measured times: the
#: number of threads changes the order of additions, so the last digits would differ between runs.
SMALL_MODEL_PARAMETERS, SMALL_ITEM_BYTES = 1 << 20, 1 << 16


class TorchModel:
    """Runs a PyTorch model on dicts of arrays; the keys are the names of the artifacts' tensors.

    Args:
        source: The loaded model, and where it comes from.
        runner: The function that runs the model on the inputs of one item.
    """

    def __init__(self, source: ModelSource, runner: Runner) -> None:
        self._source = source
        self._runner = runner
        assert source.model is not None
        parameters = sum(parameter.numel() for parameter in source.model.parameters())
        self._is_small = parameters <= SMALL_MODEL_PARAMETERS

    @cached_property
    def identity(self) -> str:
        """A digest of the model's weights and of the source file of its class."""
        return model_identity(self._source)

    def find_other_weights(self, subjects: Sequence[EvaluationSubject]) -> dict[str, str]:
        """Return the artifacts made from other weights; see :func:`find_other_weights`."""
        return find_other_weights(self._source, subjects)

    def is_single_threaded(self, item: Item) -> bool:
        """Return True if PyTorch uses only one thread, because the model and the item are small."""
        size = sum(array.nbytes for array in item.inputs.values())
        return self._is_small and size <= SMALL_ITEM_BYTES

    def outputs(self, items: Sequence[Item]) -> list[dict[str, NumpyArray]]:
        """Run items of equal shapes, and return each item's outputs by name.

        Raises:
            ModelError: The model raised; the message names the item.
            InputError: An item does not fit the model.
        """
        with _one_torch_thread() if self.is_single_threaded(items[0]) else nullcontext():
            return [self._run_item(item) for item in items]

    def _run_item(self, item: Item) -> dict[str, NumpyArray]:
        try:
            return self._runner(item.inputs)
        except (ModelError, InputError) as err:
            raise type(err)(f"item {item.number}: {err}", hint=err.full_hint) from err


@contextmanager
def torch_model(model: object, run: EvaluationRun) -> Iterator[TorchModel]:
    """Yield a PyTorch model that takes and returns arrays by the artifacts' tensor names.

    On exit, the model's buffers and attributes get their earlier values back.

    Raises:
        ModelSourceError: The model does not exist.
        UsageError: The model is an ONNX file, which PyTorch cannot run.
        InputError: The items do not fit the model.
    """
    source = find_torch_model(model)
    example = None
    if source.example_inputs is None:
        # Binding a model to input names requires an example: the first item.
        example = next(read_items(run.data, run.inputs)).inputs
    with unchanged(source):
        names = [spec.name for spec in run.inputs]
        outputs = [spec.name for spec in run.outputs]
        bound = reference_model(source, names, example, outputs or None)
        with bound.runner() as runner:
            yield TorchModel(source, runner)


def find_torch_model(model: object) -> ModelSource:
    """Load a model that PyTorch can run; return the model with its origin.

    Raises:
        ModelSourceError: The model does not exist.
        UsageError: The model is an ONNX file, which PyTorch cannot run.
    """
    source = find_model(model)
    if source.model is None:
        raise UsageError(
            f"'{source.description}' is an ONNX file, expected a PyTorch model to compare the "
            "artifacts with",
            hint="name the PyTorch model that was exported to this file, or omit --model",
        )
    return source


def find_other_weights(
    source: ModelSource, subjects: Sequence[EvaluationSubject]
) -> dict[str, str]:
    """Return the artifacts that were made from other weights than a model's.

    Returns:
        The artifact's name → the name of the model that it was made from, which loads its weights;
        empty for a Python object.
    """
    digest = digest_weights(source.module)
    manifests = {subject.name: subject.artifact.manifest for subject in subjects}
    return {
        name: manifest.model
        for name, manifest in manifests.items()
        # The digest of an ONNX file is the file's.
        if not manifest.model.lower().endswith(".onnx")
        and {digest, manifest.reference_sha256}.isdisjoint({""})
        and manifest.reference_sha256 != digest
    }


def model_identity(source: ModelSource) -> str:
    """Return a digest of the model's weights and of the source file of its class."""
    digest = blake2b(source.description.encode(), digest_size=16)
    for name, value in source.module.state_dict().items():
        digest.update(name.encode())
        digest.update(to_numpy(value).tobytes() if is_torch(value) else repr(value).encode())
    kind = type(source.module)
    try:
        digest.update(Path(inspect.getfile(kind)).read_bytes())
    except (TypeError, OSError):  # built in, or typed into an interpreter
        digest.update(kind.__qualname__.encode())
    return digest.hexdigest()


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
