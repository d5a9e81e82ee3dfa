"""The PyTorch model that artifacts are compared with, item by item."""

from __future__ import annotations

import inspect
from contextlib import contextmanager, nullcontext
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.authors import find_model, is_torch, reference_model, to_numpy, unchanged
from enginebay.errors import InputError, ModelError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay.authors import Item, ModelSource, NumpyArray
    from enginebay_lab.evaluation.run import Run

    Runner = Callable[[Mapping[str, NumpyArray]], dict[str, NumpyArray]]

#: Parameters of a model, and bytes of an item, up to which PyTorch runs in one thread: it has no
#: work for several, and the engines run meanwhile. Not by the time that an item takes: with another
#: number of threads PyTorch adds in another order, and the last digits would differ between runs.
PARAMETERS, BYTES = 1 << 20, 1 << 16


class TorchModel:
    """A PyTorch model that takes and returns arrays by the artifacts' names.

    Args:
        source: The model.
        runner: Runs it.
    """

    def __init__(self, source: ModelSource, runner: Runner) -> None:
        self._source = source
        self._runner = runner
        assert source.model is not None
        self._is_small = sum(each.numel() for each in source.model.parameters()) <= PARAMETERS

    @cached_property
    def identity(self) -> str:
        """A digest of the weights and of the class's source."""
        return model_identity(self._source)

    def leaves_cores(self, item: Item) -> bool:
        """True if it runs items of this size in one thread."""
        return self._is_small and sum(each.nbytes for each in item.inputs.values()) <= BYTES

    def outputs(self, items: Sequence[Item]) -> list[dict[str, NumpyArray]]:
        """The outputs for each item; items have the same shapes.

        Raises:
            ModelError: The model raised; names the item.
            InputError: An item does not fit it.
        """
        with _one_thread() if self.leaves_cores(items[0]) else nullcontext():
            return [self._run(item) for item in items]

    def _run(self, item: Item) -> dict[str, NumpyArray]:
        try:
            return self._runner(item.inputs)
        except (ModelError, InputError) as err:
            raise type(err)(f"item {item.number}: {err}", hint=err.hint) from err


@contextmanager
def torch_model(model: Any, run: Run) -> Iterator[TorchModel]:
    """Yield a PyTorch model bound to an evaluation's inputs; after the block it is as it was.

    Raises:
        ModelSourceError: There is no such model.
        UsageError: It is an ONNX file, which PyTorch cannot run.
        InputError: The items do not fit it.
    """
    source = find_torch_model(model)
    example = None
    if source.example_inputs is None:
        example = next(run.data.items(run.inputs)).inputs
    with unchanged(source):
        names = [spec.name for spec in run.inputs]
        outputs = [spec.name for spec in run.outputs]
        bound = reference_model(source, names, example, outputs or None)
        with bound.runner() as runner:
            yield TorchModel(source, runner)


def find_torch_model(model: Any) -> ModelSource:
    """Find a model that PyTorch can run.

    Raises:
        ModelSourceError: There is no such model.
        UsageError: It is an ONNX file, which PyTorch cannot run.
    """
    source = find_model(model)
    if source.model is None:
        raise UsageError(
            f"'{source.description}' does not run in PyTorch, which artifacts are compared with",
            hint="name the PyTorch model that it was made from, or leave --model out",
        )
    return source


def model_identity(source: ModelSource) -> str:
    """A digest of the model's weights and of its class's source."""
    found = blake2b(source.description.encode(), digest_size=16)
    for name, value in source.module.state_dict().items():
        found.update(name.encode())
        found.update(to_numpy(value).tobytes() if is_torch(value) else repr(value).encode())
    kind = type(source.module)
    try:
        found.update(Path(inspect.getfile(kind)).read_bytes())
    except (TypeError, OSError):  # built in, or typed into an interpreter
        found.update(kind.__qualname__.encode())
    return found.hexdigest()


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
