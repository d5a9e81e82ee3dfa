"""Symbolics of autograd functions where torch.export captures a model, and looks into them.

Each call of a function with a symbolic becomes one operator instead. In torch's default exporter
the operator's translation is the symbolic; for the TorchScript exporter, which knows autograd
functions itself, the call is put back into the graph.
"""

from __future__ import annotations

import functools
import itertools
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.dynamo_graph import Graph, call_symbolic, without_annotations
from enginebay.rewriting.patches import replace_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeAlias

    from torch import Tensor, fx
    from torch._ops import OpOverload

    from enginebay.rewriting.patches import Patch

    Apply: TypeAlias = Callable[..., Any]

#: The operators' namespace, which all threads share. Each operator's name ends with a number, so
#: that two exports at once may use the same autograd function.
NAMESPACE = "enginebay_symbolics"
_numbers = itertools.count()


class _Tree:
    """A nested value, and its leaves of some types."""

    def __init__(self, value: Any, *kinds: type) -> None:
        from torch.utils import _pytree as pytree

        self._leaves, self._spec = pytree.tree_flatten(value)
        self._places = [place for place, leaf in enumerate(self._leaves) if isinstance(leaf, kinds)]

    @property
    def leaves(self) -> list[Any]:
        """The leaves of these types."""
        return [self._leaves[place] for place in self._places]

    def with_leaves(self, leaves: Iterable[Any]) -> Any:
        """Return the same value with others in their places."""
        from torch.utils import _pytree as pytree

        filled = list(self._leaves)
        for place, leaf in zip(self._places, leaves, strict=True):
            filled[place] = leaf
        return pytree.tree_unflatten(filled, self._spec)


class _Call:
    """One call of an autograd function: its arguments apart from their tensors and open sizes.

    An operator's arguments are tensors, sizes and constants, and an autograd function's anything.
    The operator therefore gets the number of this call, and the tensors and sizes in lists.

    Attributes:
        tensors: The tensors in the arguments.
        sizes: The open sizes in the arguments.
        outputs: The result of the call, once it has run.
    """

    outputs: _Tree

    def __init__(self, run: Callable[..., Any], args: tuple[Any, ...]) -> None:
        import torch

        self._run = run
        self._tree = _Tree(args, torch.Tensor, torch.SymInt)
        self.tensors = [each for each in self._tree.leaves if isinstance(each, torch.Tensor)]
        self.sizes = [each for each in self._tree.leaves if isinstance(each, torch.SymInt)]

    def arguments(self, tensors: Iterable[Any], sizes: Iterable[Any]) -> Any:
        """Return the arguments with others in the places of the tensors and open sizes."""
        import torch

        rest = {True: iter(tensors), False: iter(sizes)}
        return self._tree.with_leaves(
            next(rest[isinstance(each, torch.Tensor)]) for each in self._tree.leaves
        )

    def run(self, tensors: list[Tensor], sizes: list[int]) -> list[Tensor]:
        """Run the function itself."""
        import torch

        self.outputs = _Tree(self._run(*self.arguments(tensors, sizes)), torch.Tensor)
        return self.outputs.leaves


class AutogradOperators:
    """The operators that replace autograd functions inside a context.

    Args:
        functions: Each function's name and the patch that is its symbolic; None for all functions
            that have a symbolic.

    Attributes:
        translations: The operators' translations, for the exporter.
    """

    def __init__(self, functions: Mapping[type, tuple[str, Patch]] | None) -> None:
        import torch

        library: Any = torch.library.Library  # its constructor is untyped in torch 2.13
        self._library: Any = library(NAMESPACE, "FRAGMENT")
        self._calls: list[_Call] = []
        self._operators: dict[type, OpOverload] = {}
        self.translations: dict[OpOverload, Callable[..., Any]] = {}
        self._all = functions is None
        for function, (name, patch) in (functions or {}).items():
            operator = self._operators[function] = self._define(function)
            self.translations[operator] = self._translation(name, patch)

    def close(self) -> None:
        """Take the operators out of torch again."""
        self._library._destroy()  # private, but at once and not by the garbage collector

    def apply(self, original: Apply, function: type, /, *args: Any, **kwargs: Any) -> Any:
        """Do as ``torch.autograd.Function.apply``, by one operator while a model is captured."""
        import torch

        # Eager calls and jit.trace run the function itself; the latter's exporter has symbolics.
        is_wanted = function in self._operators or (self._all and hasattr(function, "symbolic"))
        if not is_wanted or kwargs or not torch.compiler.is_exporting():
            return original(function, *args, **kwargs)
        if (operator := self._operators.get(function)) is None:
            operator = self._operators[function] = self._define(function)
        recorded = _Call(functools.partial(original, function), args)
        self._calls.append(recorded)
        outputs = operator(recorded.tensors, recorded.sizes, len(self._calls) - 1)
        return recorded.outputs.with_leaves(outputs)

    def put_back(self, module: fx.GraphModule) -> None:
        """Call the functions themselves in a graph, in the place of their operators."""
        operators = set(self._operators.values())
        for node in module.graph.nodes:
            if node.target in operators:
                tensors, sizes, call = node.args
                node.target, node.args = self._calls[call].run, (tensors, sizes)
        module.recompile()

    def _define(self, function: type) -> OpOverload:
        import torch

        name = f"{function.__name__}_{next(_numbers)}"
        self._library.define(f"{name}(Tensor[] tensors, SymInt[] sizes, int call) -> Tensor[]")
        self._library.impl(name, self._run, "CompositeExplicitAutograd")
        # The same for the fake tensors that a model is captured with.
        torch.library.register_fake(f"{NAMESPACE}::{name}", self._run, lib=self._library)
        operator: OpOverload = getattr(getattr(torch.ops, NAMESPACE), name).default
        return operator

    def _run(self, tensors: list[Tensor], sizes: list[int], call: int) -> list[Tensor]:
        # torch.library forbids an operator to return one of its inputs.
        return [each.clone() for each in self._calls[call].run(tensors, sizes)]

    def _translation(self, name: str, patch: Patch) -> Callable[..., Any]:
        def translation(tensors: Any, sizes: Any, number: int) -> Any:
            args = self._calls[number].arguments(tensors, sizes)
            result = call_symbolic(patch, Graph(name), args)
            # The operator has one output, a list: see its schema.
            return result if isinstance(result, tuple | list) else [result]

        return without_annotations(translation)


@contextmanager
def functions_kept() -> Iterator[AutogradOperators]:
    """Inside, torch.export takes each autograd function that has a symbolic for one operator."""
    with ExitStack() as undo:
        operators = AutogradOperators(None)
        undo.callback(operators.close)
        replace_functions(undo, {"torch.autograd.Function.apply": operators.apply})
        yield operators
