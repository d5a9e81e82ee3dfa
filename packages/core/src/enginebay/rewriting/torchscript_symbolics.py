"""Symbolics of operators and of autograd functions for torch's TorchScript exporter.

Checked with torch 2.13, in which the exporter and its registry are private.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from enginebay import torch_private
from enginebay.errors import RewriterError
from enginebay.rewriting.autograd_functions import NAMESPACE
from enginebay.rewriting.dotted_names import ResolvedName, find_attribute
from enginebay.rewriting.dynamo_graph import SymbolicGraph
from enginebay.rewriting.patches import AttributePatch, Patch, get_patch, replace_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import ExitStack
    from typing import NoReturn

    from torch import Graph

    from enginebay.rewriting.rewriter import Context, Rewriter
    from enginebay.torch_private import GraphContext, OpOverload

#: Operators that ``torch.jit.trace`` replaces by ``_convolution``, as of torch 2.13.
_NOT_TRACED = {f"aten::conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)}
_NOT_TRACED |= {"aten::convolution"}

#: Operators that torch's functions of the same name no longer call, and their successors.
SUPERSEDED = {
    "aten::norm": "linalg_vector_norm",
    "aten::frobenius_norm": "linalg_vector_norm",
    "aten::nuclear_norm": "linalg_matrix_norm",
}


def add_namespace(operator: str) -> str:
    """Return an operator's name with its namespace, such as ``aten::squeeze`` for ``squeeze``."""
    return operator if "::" in operator else f"aten::{operator}"


class OperatorPatch(Patch):
    """Replaces an operator's symbolic in the registry of torch's TorchScript exporter."""

    def __init__(self, operator: str) -> None:
        self._operator = add_namespace(operator)
        super().__init__(("symbolic", self._operator))
        self._before: dict[int, Callable[..., object]] = {}
        self._custom: set[int] = set()

    def install(self) -> None:
        """For every opset, register a function that calls the calling thread's rewriter."""
        registry = torch_private.symbolic_registry()
        group = registry.get_function_group(self._operator)
        if group is not None:
            functions = torch_private.symbolics_by_opset(group)
            self._before = {opset: functions[opset] for opset in functions}
            # Custom entries hide torch's own; uninstall restores both kinds differently.
            self._custom = {each for each in functions if functions.overridden(each)}
        # The exporter uses the newest entry up to its opset. To be used for every opset, our
        # function replaces all entries and is added for the oldest opset.
        for opset in {torch_private.oldest_opset(), *self._before}:
            registry.register(self._operator, opset, self.call, custom=True)

    def uninstall(self) -> None:
        """Restore the operator's entries in the registry."""
        if not self._before:  # the entry was not there, and is entirely ours
            torch_private.remove_symbolics(self._operator)
            return
        group = torch_private.symbolic_registry().get_function_group(self._operator)
        functions = torch_private.symbolics_by_opset(group)
        for opset in list(functions):
            if opset in self._custom:
                group.add_custom(self._before[opset], opset)
            elif functions.overridden(opset):
                group.remove_custom(opset)

    def original(self, g: GraphContext | SymbolicGraph, *args: object, **kwargs: object) -> object:
        """Call the current exporter's own symbolic of the operator, and return the result."""
        symbolic = g.original if isinstance(g, SymbolicGraph) else self._torchscript_original(g)
        if symbolic is None:
            raise RewriterError(
                f'ctx.origin_func was called for "{self._operator}", '
                f"but torch has no symbolic for it in opset {g.opset}"
            )
        return symbolic(g, *args, **kwargs)

    def _torchscript_original(self, g: GraphContext) -> Callable[..., object] | None:
        opset = max((each for each in self._before if each <= g.opset), default=None)
        return None if opset is None else self._before[opset]


class FunctionPatch(AttributePatch):
    """Adds a ``symbolic`` to an autograd function that has none."""

    def __init__(self, function: type, name: str) -> None:
        super().__init__(
            ResolvedName(function, "symbolic", staticmethod(_raise_no_symbolic), inherited=True)
        )
        self.original = functools.partial(_raise_no_symbolic, name)

    def uninstall(self) -> None:
        """Remove ``symbolic``, and the function's entry in the exporter's registry."""
        super().uninstall()
        # The exporter registers the symbolics of autograd functions permanently. The next export
        # would use the entry without a rewriter.
        torch_private.remove_symbolics(f"::{self.resolved.owner.__name__}")


def patch_symbolic(function: type, name: str) -> Patch:
    """Return a patch that replaces an autograd function's ``symbolic``, or adds a missing one."""
    symbolic = find_attribute(function, "symbolic")
    return FunctionPatch(function, name) if symbolic is None else get_patch(symbolic)


def parse_arguments_of(rewriter: Rewriter) -> Callable[..., object]:
    """Return the function to call for a symbolic rewriter.

    If the rewriter has ``arg_descriptors``, the function first converts each argument as its
    descriptor says; else it is the rewriter's replacement itself.
    """
    descriptors: Any = rewriter.arg_descriptors  # validated; torch's type is a Literal
    if descriptors is None:
        return rewriter.replacement
    from torch.onnx import symbolic_helper

    def replacement(ctx: Context, g: object, *args: object, **kwargs: object) -> object:
        function = functools.partial(rewriter.replacement, ctx)
        functools.update_wrapper(function, rewriter.replacement)
        # parse_args reads the signature, which must not have the replacement's first argument.
        del vars(function)["__wrapped__"]
        return symbolic_helper.parse_args(*descriptors)(function)(g, *args, **kwargs)

    return replacement


def why_not_traced(operator: str) -> str:
    """Return why traced graphs never have an operator; an empty string if they may have it."""
    import torch

    name = add_namespace(operator)
    if name in _NOT_TRACED:
        return "the tracer records _convolution instead"
    # Of softsign, for example, a function in Python, the tracer records the inner operators.
    if name.startswith("aten::") and not hasattr(torch.ops.aten, name.removeprefix("aten::")):
        return "torch.ops has no such operator"
    return why_superseded(operator)


def why_superseded(operator: str) -> str:
    """Return why torch no longer calls an operator; an empty string if torch still calls it."""
    successor = SUPERSEDED.get(add_namespace(operator))
    return f"torch.norm calls {successor} instead" if successor else ""


def watch_constants(
    undo: ExitStack, rewriters: Iterable[Rewriter], refuse: Callable[[Rewriter, str], None]
) -> None:
    """Until ``undo`` is closed, call ``refuse`` for each symbolic rewriter without effect.

    A symbolic has no effect if the exporter folds all nodes of its operator to constants.
    ``refuse`` takes the rewriter and the reason as text.
    """
    by_kind = {add_namespace(each.name): each for each in rewriters}

    def propagate(original: Callable[[Graph], None], graph: Graph) -> None:
        torch_private.remove_unused_nodes(graph)  # it removes them too, and they would count
        before = [node.kind() for node in graph.nodes()]
        original(graph)
        remaining = {node.kind() for node in graph.nodes()}
        for kind in dict.fromkeys(before):
            if kind in by_kind and kind not in remaining:
                refuse(by_kind[kind], "the exporter folds nodes that do not depend on an input")

    replace_functions(undo, {torch_private.name_of_constant_propagation(): propagate})


def has_symbolic(overload: OpOverload, is_complex: bool) -> bool:
    """Return True if the TorchScript exporter translates an operator.

    It translates no operator that is called with complex numbers (``is_complex``).
    """
    name = torch_private.schema_of(overload).name
    # It has no complex numbers, and therefore its stft has another result than torch's.
    if is_complex or name == "aten::stft":
        return False
    if name.startswith(f"{NAMESPACE}::"):  # an autograd function, whose symbolic it finds itself
        return True
    # Not cached: symbolic rewriters add entries for the duration of a context.
    return torch_private.symbolic_registry().get_function_group(name) is not None


def _raise_no_symbolic(name: str, *_: object) -> NoReturn:
    raise RewriterError(
        f'ctx.origin_func was called for "{name}", but torch has no symbolic for it'
    )
