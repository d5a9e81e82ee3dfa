"""The tensor cases of ONNX's own backend test suite: a model, inputs, and expected outputs."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import onnx
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onnx.backend.test.case.test_case import TestCase

#: The kinds whose models and data are in onnx's wheel; ``real`` would download them.
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


class Case(NamedTuple):
    """A model with its data."""

    name: str
    model: onnx.ModelProto
    source: TestCase

    @property
    def input_names(self) -> list[str]:
        """Return the inputs of the model without its initializers."""
        known = {each.name for each in self.model.graph.initializer}
        return [each.name for each in self.model.graph.input if each.name not in known]

    def data_sets(self) -> Iterator[tuple[dict[str, Any], list[Any]]]:
        """Yield inputs by name, and their expected outputs in the model's order."""
        sets = self.source.data_sets
        pairs = _stored(Path(str(self.source.model_dir))) if sets is None else sets
        for inputs, outputs in pairs:
            arrays = [_array(value) for value in inputs]
            yield (
                dict(zip(self.input_names, arrays, strict=True)),
                [_array(value) for value in outputs],
            )

    def compare(self, wanted: Sequence[Any], found: Sequence[Any]) -> None:
        """Raise AssertionError as onnx's own runner does."""
        Runner.assert_similar_outputs(wanted, found, self.source.rtol, self.source.atol)


def load_cases() -> dict[str, Case]:
    """Return every case whose inputs and outputs are tensors, by ``kind/name``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero on purpose
        tests = [(kind, test) for kind in KINDS for test in load_model_tests(kind=kind)]
    cases = (_case(f"{kind}/{test.name}", test) for kind, test in tests)
    return {case.name: case for case in cases if _is_of_tensors(case.model)}


def _case(name: str, test: TestCase) -> Case:
    return Case(name, test.model or onnx.load(Path(str(test.model_dir)) / "model.onnx"), test)


def _is_of_tensors(model: onnx.ModelProto) -> bool:
    values = (*model.graph.input, *model.graph.output)
    return all(value.type.WhichOneof("value") == "tensor_type" for value in values)


def _stored(folder: Path) -> Iterator[tuple[list[Any], list[Any]]]:
    for data_set in sorted(folder.glob("test_data_set_*")):
        yield _tensors(data_set, "input"), _tensors(data_set, "output")


def _tensors(folder: Path, kind: str) -> list[Any]:
    count = len(list(folder.glob(f"{kind}_*.pb")))
    return [onnx.load_tensor(folder / f"{kind}_{number}.pb") for number in range(count)]


def _array(value: Any) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
