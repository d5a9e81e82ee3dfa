"""Adapter that gives the default exporter's graph the interface of TorchScript's graph.

With this adapter, one symbolic works in both exporters. Checked with torch 2.13, onnxscript 0.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import onnx_ir

    from enginebay.rewriting.patches import Patch


class SymbolicValue:
    """A tensor in the default exporter's graph; symbolics use it like a TorchScript value.

    Attributes:
        value: The ``onnx_ir`` value of the tensor.
    """

    def __init__(self, value: onnx_ir.Value) -> None:
        self.value = value

    def type(self) -> SymbolicValue:
        """Return the value itself, so that ``x.type().sizes()`` works as in TorchScript."""
        return self

    def setType(self, like: SymbolicValue) -> None:  # noqa: N802  # TorchScript's name
        """Give this value the dtype and the shape of the value ``like``."""
        # A TorchScript type holds both; onnx_ir has two attributes.
        self.value.type, self.value.shape = like.value.type, like.value.shape

    def sizes(self) -> list[int | None] | None:
        """Return the sizes, None for each dynamic one; None if the rank is unknown."""
        shape = self.value.shape
        return None if shape is None else [d if isinstance(d, int) else None for d in shape]

    def dim(self) -> int | None:
        """Return the rank; None if it is unknown."""
        return None if self.value.shape is None else len(self.value.shape)

    def scalarType(self) -> str | None:  # noqa: N802  # TorchScript's name
        """Return TorchScript's name of the dtype, such as ``Float``; None if it is unknown."""
        from torch.onnx import JitScalarType  # type: ignore[attr-defined]  # not in its __all__

        if self.value.dtype is None:
            return None
        name: str = JitScalarType.from_onnx_type(int(self.value.dtype)).scalar_name()
        return name


class SymbolicGraph:
    """The argument ``g`` of symbolics in the default exporter; :meth:`op` adds a node to a graph.

    Attributes:
        opset: The ONNX opset that the exporter writes.
        original: A function that adds the nodes of the exporter's own translation of the operator;
            None if there is no such function, as for an autograd function.
    """

    def __init__(self, name: str, original: Callable[..., object] | None = None) -> None:
        from onnxscript import evaluator

        self._name = name
        # During a translation the exporter's recorder is onnxscript's default evaluator.
        self._recorder: Any = evaluator.default()
        self.opset: int = self._recorder.opset.version
        self.original = original

    def op(self, name: str, *inputs: object, outputs: int = 1, **attributes: object) -> Any:
        """Add a node to the exporter's graph.

        Args:
            name: The node's operator, such as ``Squeeze`` or ``my_domain::Op``.
            *inputs: Values of the graph, constants, or None for an omitted optional input.
            outputs: The number of the node's outputs.
            **attributes: The attributes, whose names end with a code for their type: ``axis_i``,
                ``sizes_i``, ``mode_s``, ``alpha_f``, ``value_t``.

        Returns:
            The output of the node; a tuple if the node has several outputs.

        Raises:
            RewriterError: An attribute is not a constant.
        """
        import onnx_ir

        domain, _, op_type = name.rpartition("::")
        node = onnx_ir.Node(
            "" if domain == "onnx" else domain,  # TorchScript's name of the default domain
            op_type,
            [self._to_value(each) for each in inputs],
            [self._to_attribute(op_type, key, value) for key, value in attributes.items()],
            num_outputs=outputs,
        )
        self._recorder.nodes.append(node)
        results = tuple(SymbolicValue(each) for each in node.outputs)
        return results[0] if outputs == 1 else results

    def _to_value(self, argument: object) -> onnx_ir.Value | None:
        import torch

        if argument is None:  # an optional input that is left out
            return None
        if isinstance(argument, SymbolicValue):
            return argument.value
        constant: SymbolicValue = self.op("Constant", value_t=torch.as_tensor(argument))
        return constant.value

    def _to_attribute(self, op_type: str, key: str, value: Any) -> onnx_ir.Attr:
        import onnx_ir
        import torch

        name = key.rpartition("_")[0]  # onnx_ir infers the type, and its names have no suffix
        if any(
            isinstance(each, SymbolicValue)
            for each in (value if isinstance(value, list) else [value])
        ):
            raise RewriterError(
                f'the symbolic of "{self._name}" passes a tensor of the graph as the attribute '
                f'"{name}" of {op_type}, expected a constant'
            )
        if isinstance(value, torch.Tensor):
            value = onnx_ir.tensor(value.detach().cpu().numpy())
        elif isinstance(value, tuple):
            value = list(value)
        (attribute,) = onnx_ir.convenience.convert_attributes({name: value})
        return attribute


def call_symbolic(patch: Patch, graph: SymbolicGraph, args: Iterable[object]) -> object:
    """Call a patch's symbolic with ``onnx_ir`` values; return its result as ``onnx_ir`` values."""
    return unwrap_values(patch.call(graph, *map(wrap_values, args)))


def strip_annotations(translation: Callable[..., object]) -> Callable[..., object]:
    """Remove a function's annotations, which the exporter would read as ONNX types; return it."""
    translation.__annotations__ = {}
    return translation


def wrap_values(values: object) -> object:
    """Return a nested structure with each ``onnx_ir.Value`` turned into :class:`SymbolicValue`."""
    import onnx_ir

    if isinstance(values, list | tuple):
        return type(values)(map(wrap_values, values))
    return SymbolicValue(values) if isinstance(values, onnx_ir.Value) else values


def unwrap_values(values: object) -> object:
    """Return a nested structure with each :class:`SymbolicValue` turned into ``onnx_ir.Value``."""
    if isinstance(values, list | tuple):
        return type(values)(map(unwrap_values, values))
    return values.value if isinstance(values, SymbolicValue) else values
