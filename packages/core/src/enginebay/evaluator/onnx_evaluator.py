"""ONNX's reference evaluator without its false operators: independent of every engine."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.environment import require
from enginebay.errors import ConversionError, ModelError, reason
from enginebay.ir import read_inlined, read_onnx

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]

#: ONNX's numbers of float, float16 and bfloat16.
_FLOATS = (1, 10, 16)


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

    def refuse(err: Exception) -> ModelError:
        text = f"onnx's reference evaluator cannot run '{model.path.name}': {reason(err)}"
        return ModelError(text)

    def run(inputs: Mapping[str, NumpyArray]) -> Arrays:
        try:
            values = evaluator.run(None, {name: wide(array) for name, array in inputs.items()})
            pairs = zip(model.outputs, values, strict=True)
            return {spec.name: _narrow(value, spec.dtype) for spec, value in pairs}
        except Exception as err:
            raise refuse(err) from err

    try:
        evaluator = make_evaluator(load_for_evaluator(model.path))
    except Exception as err:
        raise refuse(err) from err
    wide = widen_half(evaluator)
    return run


def widen_half(evaluator: Any) -> Callable[[Any], NumpyArray]:
    """Let an evaluator of a file in half precision compute in single precision.

    Engines round after some operators, and the exact value lies between. The function that is
    returned widens an input.
    """
    is_half = any(array.dtype == np.float16 for array in evaluator.rt_inits_.values())
    return widen_evaluator(evaluator, np.float32) if is_half else np.asarray


def load_for_evaluator(path: Path) -> Any:
    """Return what the evaluator takes: a path, beside which it searches external data, or a model.

    The evaluator does not replace references to the attributes of a local function.
    """
    from onnx import load_external_data_for_model

    with suppress(ConversionError):  # a function of another opset
        inlined = read_inlined(path)
        if inlined is not None:
            load_external_data_for_model(inlined, str(path.parent))
            return inlined
    return str(path)


def widen_evaluator(evaluator: Any, dtype: type[np.floating[Any]]) -> Callable[[Any], NumpyArray]:
    """Let an evaluator compute in a wider dtype; return a function that widens its inputs."""

    def widen(array: Any) -> NumpyArray:
        is_narrow = array.dtype in (np.float16, np.float32) and array.itemsize < dtype().itemsize
        return np.asarray(array, dtype if is_narrow else None)

    evaluator.rt_inits_ = {name: widen(array) for name, array in evaluator.rt_inits_.items()}
    for node in evaluator.rt_nodes_:
        if node.op_type == "Cast" and node.to in _FLOATS:
            node.run = lambda x, **_: (np.asarray(x, dtype),)
    return widen


def _narrow(value: Any, dtype: str) -> Any:
    return value.astype(dtype) if dtype in ("float16", "float32") else value


def make_evaluator(model: Any) -> Any:
    """Return onnx's evaluator of a model (a path or a proto) with our operators."""
    from onnx.reference import ReferenceEvaluator

    operators = replaced_operators()

    class Evaluator(ReferenceEvaluator):  # type: ignore[misc]  # onnx has no types
        # onnx makes evaluators for local functions without the operators of the model's.
        def __init__(self, proto: Any, **options: Any) -> None:
            super().__init__(proto, **{**options, "new_ops": operators})

        # onnx keeps the result of each node to the end, which takes gigabytes.
        def run(self, output_names: Any, feed_inputs: Any, *args: Any, **options: Any) -> Any:
            if args or options or any(node.need_context() for node in self.rt_nodes_):
                return super().run(output_names, feed_inputs, *args, **options)
            wanted = output_names or self.output_names
            values = {"": None, **self.rt_inits_, **feed_inputs}
            last_use = {name: node for node in self.rt_nodes_ for name in node.input}
            for node in self.rt_nodes_:
                outputs = node.run(*(values[name] for name in node.input))
                values |= {**dict(zip(node.output, outputs, strict=False)), "": None}
                for name in {*node.input, *node.output} - {"", *wanted}:
                    if last_use.get(name, node) is node:
                        values.pop(name, None)
            return [values[name] for name in wanted]

    return Evaluator(model)


def replaced_operators() -> list[type[Any]]:
    """Return our classes of operators, each under the operator's name."""
    from enginebay.evaluator import learning, loops, operators, windows

    modules = (operators, loops, windows)
    values = [value for module in modules for value in vars(module).values()]
    base = operators.Operator
    classes = (value for value in values if isinstance(value, type) and issubclass(value, base))
    own = [each for each in classes if each is not base and each.__name__[0] != "_"]
    return [*own, learning.SVMClassifier, learning.Tokenizer]
