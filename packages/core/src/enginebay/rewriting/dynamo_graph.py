"""The graph of torch's default exporter, with the interface of the TorchScript exporter's.

One symbolic thereby serves both exporters. Checked with torch 2.13 and onnxscript 0.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import onnx_ir

    from enginebay.rewriting.patches import Patch


class Value:
    """A tensor of the graph, with the methods that symbolics call on TorchScript's.

    Attributes:
        value: The exporter's own, an ``onnx_ir.Value``.
    """

    def __init__(self, value: onnx_ir.Value) -> None:
        self.value = value

    def type(self) -> Value:
        """Return the value itself, so that ``x.type().sizes()`` works as elsewhere."""
        return self

    def setType(self, like: Value) -> None:  # noqa: N802  # the TorchScript exporter calls it so
        """Give the value the dtype and the shape of another."""
        # onnx_ir keeps apart what TorchScript keeps in one type.
        self.value.type, self.value.shape = like.value.type, like.value.shape

    def sizes(self) -> list[int | None] | None:
        """Return each dimension's size, None for an open one; None where the rank is unknown."""
        shape = self.value.shape
        return None if shape is None else [d if isinstance(d, int) else None for d in shape]

    def dim(self) -> int | None:
        """Return the rank; None where it is unknown."""
        return None if self.value.shape is None else len(self.value.shape)

    def scalarType(self) -> str | None:  # noqa: N802  # the TorchScript exporter calls it so
        """Return the dtype by TorchScript's name, such as ``Float``; None where it is unknown."""
        from torch.onnx._internal.torchscript_exporter._type_utils import JitScalarType

        if self.value.dtype is None:
            return None
        name: str = JitScalarType.from_onnx_type(int(self.value.dtype)).scalar_name()
        return name


class Graph:
    """A symbolic's ``g``: adds nodes to the graph that the default exporter builds.

    Attributes:
        opset: The opset that the exporter writes.
        original: The exporter's own translation of the operator; None where it has none.
    """

    def __init__(self, name: str, original: Callable[..., Any] | None = None) -> None:
        from onnxscript import evaluator

        self._name = name
        # While the exporter translates an operator, onnxscript's evaluator is its recorder.
        self._recorder: Any = evaluator.default()
        self.opset: int = self._recorder.opset.version
        self.original = original

    def op(self, name: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node.

        Args:
            name: The operator, ``Squeeze`` or ``my_domain::Op``.
            *inputs: Values of the graph, None for one left out, or constants.
            outputs: The number of the node's outputs.
            **attributes: By name and a suffix for the type: ``axis_i``, ``sizes_i``, ``mode_s``,
                ``alpha_f``, ``value_t``.

        Returns:
            The output, or a tuple of several.

        Raises:
            RewriterError: An attribute is not a constant.
        """
        import onnx_ir

        domain, _, op_type = name.rpartition("::")
        node = onnx_ir.Node(
            "" if domain == "onnx" else domain,
            op_type,
            [self._input(each) for each in inputs],
            [self._attribute(op_type, key, value) for key, value in attributes.items()],
            num_outputs=outputs,
        )
        self._recorder.nodes.append(node)
        results = tuple(Value(each) for each in node.outputs)
        return results[0] if outputs == 1 else results

    def _input(self, given: Any) -> onnx_ir.Value | None:
        import torch

        if given is None:  # an optional input that is left out
            return None
        if isinstance(given, Value):
            return given.value
        constant: Value = self.op("Constant", value_t=torch.as_tensor(given))
        return constant.value

    def _attribute(self, op_type: str, key: str, given: Any) -> onnx_ir.Attr:
        import onnx_ir
        import torch

        name = key.rpartition("_")[0]  # onnx_ir needs no suffix: it sees the type
        if any(isinstance(each, Value) for each in (given if isinstance(given, list) else [given])):
            raise RewriterError(
                f'the symbolic of "{self._name}" gives a tensor of the graph as the attribute '
                f'"{name}" of {op_type}, which must be a constant'
            )
        if isinstance(given, torch.Tensor):
            given = onnx_ir.tensor(given.detach().cpu().numpy())
        elif isinstance(given, tuple):
            given = list(given)
        (attribute,) = onnx_ir.convenience.convert_attributes({name: given})
        return attribute


def call_symbolic(patch: Patch, graph: Graph, args: Sequence[Any]) -> Any:
    """Call a symbolic with the exporter's arguments, and return its result in their types."""
    return unwrap(patch.call(graph, *wrap(list(args))))


def without_annotations(translation: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function without annotations: the exporter reads them as types of ONNX."""
    translation.__annotations__ = {}
    return translation


def wrap(given: Any) -> Any:
    """Return a nested value of the exporter with each tensor as a :class:`Value`."""
    import onnx_ir

    if isinstance(given, list | tuple):
        return type(given)(map(wrap, given))
    return Value(given) if isinstance(given, onnx_ir.Value) else given


def unwrap(given: Any) -> Any:
    """Return a nested value with each :class:`Value` as the exporter's own tensor."""
    if isinstance(given, list | tuple):
        return type(given)(map(unwrap, given))
    return given.value if isinstance(given, Value) else given
