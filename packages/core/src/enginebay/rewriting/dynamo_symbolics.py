"""Symbolics in torch's default exporter, which is called dynamo.

It has no symbolics, but takes a table of translations for operators. Each symbolic becomes one,
with a graph ``g`` like the TorchScript exporter's. The table reaches the exporter through
``torch.onnx.export`` itself, which is replaced for the time of the context.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError
from enginebay.rewriting import names
from enginebay.rewriting.autograd_functions import AutogradOperators
from enginebay.rewriting.dynamo_graph import (
    Graph,
    call_symbolic,
    unwrap,
    without_annotations,
    wrap,
)
from enginebay.rewriting.lowering.operators import is_always_taken_apart, overloads_of
from enginebay.rewriting.patches import replace_functions
from enginebay.rewriting.torchscript_symbolics import qualified, why_superseded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import ExitStack

    from torch._ops import OpOverload

    from enginebay.rewriting.patches import Patch
    from enginebay.rewriting.rewriter import Rewriter

    Translations = Mapping[OpOverload, Callable[..., Any]]


def overloads(operator: str) -> list[OpOverload]:
    """Return an operator's overloads, without those that write to an argument."""
    try:  # the exporter makes a graph functional first, so that it never meets the others
        return overloads_of(qualified(operator).replace("::", "."))
    except names.NameNotFoundError:
        return []


def why_never_met(operator: str) -> str:
    """Return why the exporter never translates an operator; empty where it does if it meets it."""
    known = overloads(operator)
    if not known:
        return "torch.ops has no such operator"
    if qualified(operator) == "aten::_convolution":
        return "it meets conv1d, conv2d, conv3d and conv_transpose1d, 2d and 3d in its place"
    if all(map(is_always_taken_apart, known)):
        return f"torch.export takes {qualified(operator)} apart before"
    return why_superseded(operator)


def add_translations(undo: ExitStack, symbolics: Iterable[tuple[Rewriter, Patch]]) -> None:
    """Make every export inside the context use the symbolics.

    Args:
        undo: Closed by the caller on every path.
        symbolics: Each rewriter, with the patch to call for it.
    """
    table: dict[OpOverload, Callable[..., Any]] = {}
    functions: dict[type, tuple[str, Patch]] = {}
    for rewriter, patch in symbolics:
        if rewriter.is_pytorch:
            for overload in overloads(rewriter.name):
                table[overload] = _translation(rewriter.name, overload, patch)
        else:
            functions[names.find(rewriter.name).value] = (rewriter.name, patch)
    replacements: dict[str, Callable[..., Any]] = {}
    if functions:
        operators = AutogradOperators(functions)
        undo.callback(operators.close)
        table.update(operators.translations)
        replacements["torch.autograd.Function.apply"] = operators.apply
    replacements["torch.onnx.export"] = functools.partial(_export, table)
    replace_functions(undo, replacements)


def _export(table: Translations, original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call ``torch.onnx.export`` with the symbolics; the caller's own translations win."""
    own = kwargs.pop("custom_translation_table", None) or {}
    return original(*args, custom_translation_table={**table, **own}, **kwargs)


def _translation(name: str, overload: OpOverload, patch: Patch) -> Callable[..., Any]:
    def translation(*args: Any, **kwargs: Any) -> Any:
        graph = Graph(name, functools.partial(_original_translation, overload))
        return call_symbolic(patch, graph, _every_argument(overload, args, kwargs))

    return without_annotations(translation)


def _every_argument(
    overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any]:
    """Return all arguments in order, defaults too, as the TorchScript exporter passes them."""
    schema = overload._schema.arguments
    given = dict(zip((each.name for each in schema), args, strict=False)) | kwargs
    return [given.get(each.name, each.default_value) for each in schema]


def _original_translation(overload: OpOverload, graph: Graph, *args: Any) -> Any:
    """Add the nodes that the exporter itself has for an operator."""
    original = _from_torchlib(overload, graph.opset)
    if original is None:
        raise RewriterError(
            f'ctx.origin_func was called for "{overload}", '
            "which the dynamo exporter cannot translate"
        )
    positional, keywords = [], {}
    # torchlib's functions take the arguments as the ATen schema has them.
    for value, each in zip(unwrap(list(args)), overload._schema.arguments, strict=False):
        if not each.kwarg_only:
            positional.append(value)
        elif value != each.default_value:  # torchlib's functions do not know every keyword
            keywords[each.name] = value
    return wrap(original(*positional, **keywords))


@functools.cache
def _from_torchlib(overload: OpOverload, opset: int) -> Callable[..., Any] | None:
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    # torchlib has other functions for complex tensors under the same operators.
    found = ONNXRegistry.from_torchlib(opset).get_decomps(overload)
    return next((each.onnx_function for each in found if not each.is_complex), None)
