"""Symbolics of autograd functions in models that are captured by torch.export.

torch.export would inline the calls of an autograd function, and thus ignore its symbolic.
Here, each call of an autograd function with a symbolic is captured as one custom operator. The
default exporter translates this operator by the symbolic. The TorchScript exporter supports
autograd functions itself: for this exporter, the original calls are restored in the captured graph.
"""

from __future__ import annotations

import functools
import itertools
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from enginebay import torch_private
from enginebay.rewriting.dynamo_graph import SymbolicGraph, call_symbolic, strip_annotations
from enginebay.rewriting.patches import replace_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import onnx_ir
    from torch import Tensor, fx

    from enginebay.rewriting.patches import Patch
    from enginebay.torch_private import OpOverload

#: The namespace of the operators, common to all threads. Each operator's name ends with a number,
#: so that two exports at a time may use the same autograd function.
NAMESPACE = "enginebay_symbolics"
_numbers = itertools.count()

_T = TypeVar("_T")


class _Tree(Generic[_T]):
    """A nested structure of values (pytree) whose leaves of certain types can be replaced.

    Args:
        value: The nested structure.
        *kinds: The types of the leaves that can be replaced.
    """

    def __init__(self, value: object, *kinds: type[_T]) -> None:
        self._leaves, self._spec = torch_private.flatten_tree(value)
        self._indices = [i for i, leaf in enumerate(self._leaves) if isinstance(leaf, kinds)]

    @property
    def leaves(self) -> list[_T]:
        """The leaves that can be replaced, in order."""
        return [self._leaves[index] for index in self._indices]

    def with_leaves(self, leaves: Iterable[object]) -> Any:
        """Return a copy of the structure with other leaves.

        Args:
            leaves: One value for each of :attr:`leaves`, in the same order.
        """
        replaced = list(self._leaves)
        for index, leaf in zip(self._indices, leaves, strict=True):
            replaced[index] = leaf
        return torch_private.unflatten_tree(replaced, self._spec)


class _RecordedCall:
    """A call of an autograd function, recorded while a model is captured.

    An autograd function accepts any arguments, a custom operator only tensors and sizes. The
    operator therefore takes a list of tensors, a list of dynamic sizes, and the index of the
    recorded call, which stores all other arguments.

    Attributes:
        tensors: The tensors in the arguments.
        sizes: The dynamic sizes in the arguments.
        outputs: The result of the call, with its tensors as leaves; :meth:`run` sets it.
    """

    outputs: _Tree[Tensor]

    def __init__(self, function: Callable[..., object], args: tuple[object, ...]) -> None:
        import torch

        self._function = function
        self._tree = _Tree[object](args, torch.Tensor, torch.SymInt)
        self.tensors = [each for each in self._tree.leaves if isinstance(each, torch.Tensor)]
        self.sizes = [each for each in self._tree.leaves if isinstance(each, torch.SymInt)]

    def build_arguments(
        self, tensors: Iterable[object], sizes: Iterable[object]
    ) -> tuple[object, ...]:
        """Return the recorded arguments, but with these tensors and these dynamic sizes."""
        import torch

        rest = {True: iter(tensors), False: iter(sizes)}
        arguments: tuple[object, ...] = self._tree.with_leaves(
            next(rest[isinstance(each, torch.Tensor)]) for each in self._tree.leaves
        )
        return arguments

    def run(self, tensors: list[Tensor], sizes: list[int]) -> list[Tensor]:
        """Run the autograd function with ``tensors`` and ``sizes``; return its result's tensors."""
        import torch

        self.outputs = _Tree(self._function(*self.build_arguments(tensors, sizes)), torch.Tensor)
        return self.outputs.leaves


class AutogradOperators:
    """The custom operators that replace autograd functions while a model is captured.

    Args:
        functions: Class of an autograd function → its dotted name, and the patch that calls its
            symbolic rewriter. With None, all autograd functions that have a symbolic are replaced.

    Attributes:
        translations: Custom operator → the function that translates it in the default exporter.
    """

    def __init__(self, functions: Mapping[type, tuple[str, Patch]] | None) -> None:
        import torch

        library: Any = torch.library.Library  # its constructor is untyped in torch 2.13
        # Not "DEF", which torch allows only once for a namespace: two exports may run at a time.
        self._library: Any = library(NAMESPACE, "FRAGMENT")
        self._calls: list[_RecordedCall] = []
        self._operators: dict[type, OpOverload] = {}
        self.translations: dict[OpOverload, Callable[..., object]] = {}
        self._all = functions is None
        for function, (name, patch) in (functions or {}).items():
            operator = self._operators[function] = self._define_operator(function)
            self.translations[operator] = self._make_translation(name, patch)

    def close(self) -> None:
        """Remove the custom operators from torch."""
        torch_private.destroy_library(self._library)

    def apply_function(
        self, original: Callable[..., object], function: type, /, *args: object, **kwargs: object
    ) -> object:
        """Call ``function`` as its custom operator in a capture, otherwise by ``original``.

        While a model is captured, this method replaces ``torch.autograd.Function.apply``.
        """
        import torch

        # Eager calls and jit.trace run the function itself; for a trace the exporter finds the
        # symbolic.
        has_operator = function in self._operators or (self._all and hasattr(function, "symbolic"))
        if not has_operator or kwargs or not torch.compiler.is_exporting():
            return original(function, *args, **kwargs)
        if (operator := self._operators.get(function)) is None:
            operator = self._operators[function] = self._define_operator(function)
        recorded = _RecordedCall(functools.partial(original, function), args)
        self._calls.append(recorded)
        outputs = operator(recorded.tensors, recorded.sizes, len(self._calls) - 1)
        return recorded.outputs.with_leaves(outputs)

    def restore_calls(self, module: fx.GraphModule) -> None:
        """Replace each custom operator in a graph by a call of the original autograd function."""
        operators = set(self._operators.values())
        for node in module.graph.nodes:
            if node.target in operators:
                tensors, sizes, call = node.args
                node.target, node.args = self._calls[call].run, (tensors, sizes)
        module.recompile()

    def _define_operator(self, function: type) -> OpOverload:
        import torch

        name = f"{function.__name__}_{next(_numbers)}"
        self._library.define(f"{name}(Tensor[] tensors, SymInt[] sizes, int call) -> Tensor[]")
        # Not CompositeImplicitAutograd: torch.export would decompose the operator.
        self._library.impl(name, self._run_call, "CompositeExplicitAutograd")
        # The same implementation for the fake tensors of a capture.
        torch.library.register_fake(f"{NAMESPACE}::{name}", self._run_call, lib=self._library)
        operator: OpOverload = getattr(getattr(torch.ops, NAMESPACE), name).default
        return operator

    def _run_call(self, tensors: list[Tensor], sizes: list[int], call: int) -> list[Tensor]:
        # Copies, since torch.library does not allow an operator to return one of its inputs.
        return [each.clone() for each in self._calls[call].run(tensors, sizes)]

    def _make_translation(self, name: str, patch: Patch) -> Callable[..., object]:
        def translation(
            tensors: Sequence[onnx_ir.Value], sizes: Sequence[onnx_ir.Value | int], call: int
        ) -> object:
            args = self._calls[call].build_arguments(tensors, sizes)
            result = call_symbolic(patch, SymbolicGraph(name), args)
            # By its schema, the operator has one output, which is a list.
            return result if isinstance(result, tuple | list) else [result]

        return strip_annotations(translation)


@contextmanager
def preserve_autograd_functions() -> Iterator[AutogradOperators]:
    """Let torch.export capture each call of an autograd function as one custom operator.

    This applies inside the ``with`` statement, to autograd functions that have a symbolic.

    Yields:
        The custom operators. Their method ``restore_calls`` replaces them in a captured graph by
        calls of the original autograd functions.
    """
    with ExitStack() as undo:
        operators = AutogradOperators(None)
        undo.callback(operators.close)
        replace_functions(undo, {"torch.autograd.Function.apply": operators.apply_function})
        yield operators
