"""ONNX's reference evaluator without its false operators: independent of every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.environment import require
from enginebay.errors import ModelError, reason
from enginebay.ir import read_onnx

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]


def reference_outputs(onnx_path: str | Path, inputs: Mapping[str, NumpyArray]) -> Arrays:
    """Run an ONNX model and return its outputs by name; see :func:`read_evaluator`."""
    return read_evaluator(onnx_path)(inputs)


def read_evaluator(onnx_path: str | Path) -> Callable[[Mapping[str, NumpyArray]], Arrays]:
    """Return a function that runs an ONNX model on inputs by name.

    It raises ModelError if the evaluator fails.

    Args:
        onnx_path: The model. The paths of its external data are checked before the data are read.

    Raises:
        ModelSourceError: The file cannot be read or trusted.
        ModelError: The evaluator does not support an operator.
        MissingDependencyError: onnx is not installed or too old.
    """
    require("onnx")
    model = read_onnx(onnx_path)
    names = [spec.name for spec in model.outputs]

    def refuse(err: Exception) -> ModelError:
        text = f"onnx's reference evaluator cannot run '{model.path.name}': {reason(err)}"
        return ModelError(text)

    def run(inputs: Mapping[str, NumpyArray]) -> Arrays:
        try:
            return dict(zip(names, evaluator.run(None, dict(inputs)), strict=True))
        except Exception as err:
            raise refuse(err) from err

    try:
        # By path, since onnx searches external data in the folder of the file.
        evaluator = make_evaluator(str(model.path))
    except Exception as err:
        raise refuse(err) from err
    return run


def make_evaluator(model: Any) -> Any:
    """Return onnx's evaluator of a model (a path or a proto) with our operators."""
    from onnx.reference import ReferenceEvaluator

    operators = replaced_operators()

    class Evaluator(ReferenceEvaluator):  # type: ignore[misc]  # onnx has no types
        # onnx makes evaluators for local functions without the operators of the model's.
        def __init__(self, proto: Any, **options: Any) -> None:
            super().__init__(proto, **{**options, "new_ops": operators})

    return Evaluator(model)


def replaced_operators() -> list[type[Any]]:
    """Return our classes of operators, each under the operator's name."""
    from enginebay.reference import onnx_loops, onnx_operators, onnx_windows

    modules = (onnx_operators, onnx_loops, onnx_windows)
    values = [value for module in modules for value in vars(module).values()]
    base = onnx_operators.Operator
    classes = (value for value in values if isinstance(value, type) and issubclass(value, base))
    return [each for each in classes if each is not base]
