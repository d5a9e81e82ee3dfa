"""Symbolics for torch's default ONNX exporter, whose name is dynamo.

This exporter has no symbolics, but accepts a table of translations: operator → function that adds
its ONNX nodes. Each symbolic becomes a translation, which calls the symbolic with a ``g`` like that
of the TorchScript exporter. Inside a ``rewrite`` context, ``torch.onnx.export`` is replaced by a
function that passes the table.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from enginebay import torch_private
from enginebay.errors import RewriterError
from enginebay.rewriting.autograd_functions import AutogradOperators
from enginebay.rewriting.dotted_names import NameNotFoundError, find_name
from enginebay.rewriting.dynamo_graph import (
    SymbolicGraph,
    call_symbolic,
    strip_annotations,
    unwrap_values,
    wrap_values,
)
from enginebay.rewriting.lowering.operators import find_overloads, is_always_decomposed
from enginebay.rewriting.patches import replace_functions
from enginebay.rewriting.torchscript_symbolics import add_namespace, why_superseded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import ExitStack

    from enginebay.rewriting.patches import Patch
    from enginebay.rewriting.rewriter import Rewriter
    from enginebay.torch_private import OpOverload

    Translations = Mapping[OpOverload, Callable[..., object]]


def find_translated_overloads(operator: str) -> list[OpOverload]:
    """Return an operator's overloads, except those that write to an argument: no graph has these.

    The list is empty if torch does not have the operator.
    """
    try:  # the exporter makes a graph functional first, which removes all other overloads
        return find_overloads(add_namespace(operator).replace("::", "."))
    except NameNotFoundError:
        return []


def why_never_met(operator: str) -> str:
    """Return why no graph of this exporter has an operator; an empty string if one may have it."""
    overloads = find_translated_overloads(operator)
    if not overloads:
        return "torch.ops has no such operator"
    if add_namespace(operator) == "aten::_convolution":
        return "graphs contain conv1d, conv2d, conv3d and conv_transpose1d, 2d and 3d instead"
    if all(map(is_always_decomposed, overloads)):
        return f"torch.export decomposes {add_namespace(operator)} first"
    return why_superseded(operator)


def add_translations(undo: ExitStack, symbolics: Iterable[tuple[Rewriter, Patch]]) -> None:
    """Make ``torch.onnx.export`` use symbolic rewriters until ``undo`` is closed.

    Args:
        undo: An exit stack that the caller must close; it reverts all changes.
        symbolics: Pairs of a symbolic rewriter and the patch that calls it.
    """
    table: dict[OpOverload, Callable[..., object]] = {}
    functions: dict[type, tuple[str, Patch]] = {}
    for rewriter, patch in symbolics:
        if rewriter.is_pytorch:
            for overload in find_translated_overloads(rewriter.name):
                table[overload] = _make_translation(rewriter.name, overload, patch)
        else:
            functions[find_name(rewriter.name).value] = (rewriter.name, patch)
    replacements: dict[str, Callable[..., object]] = {}
    if functions:
        operators = AutogradOperators(functions)
        undo.callback(operators.close)
        table.update(operators.translations)
        replacements["torch.autograd.Function.apply"] = operators.apply_function
    replacements["torch.onnx.export"] = functools.partial(_export_with_table, table)
    replace_functions(undo, replacements)


def _export_with_table(
    table: Translations,
    original: Callable[..., object],
    /,
    *args: object,
    custom_translation_table: Translations | None = None,
    **kwargs: object,
) -> object:
    """Call ``torch.onnx.export`` with ``table`` and the caller's table, which has priority."""
    translations = {**table, **(custom_translation_table or {})}
    return original(*args, custom_translation_table=translations, **kwargs)


def _make_translation(name: str, overload: OpOverload, patch: Patch) -> Callable[..., object]:
    def translation(*args: object, **kwargs: object) -> object:
        graph = SymbolicGraph(name, functools.partial(_add_original_nodes, overload))
        return call_symbolic(patch, graph, _complete_arguments(overload, args, kwargs))

    return strip_annotations(translation)


def _complete_arguments(
    overload: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
) -> list[object]:
    """Return a call's arguments in the order of the schema; omitted ones have default values."""
    schema = torch_private.schema_of(overload).arguments
    by_name = dict(zip((each.name for each in schema), args, strict=False)) | kwargs
    return [by_name.get(each.name, each.default_value) for each in schema]


def _add_original_nodes(overload: OpOverload, graph: SymbolicGraph, *args: object) -> object:
    original = _find_in_torchlib(overload, graph.opset)
    if original is None:
        raise RewriterError(
            f'ctx.origin_func was called for "{overload}", '
            "which the dynamo exporter cannot translate"
        )
    positional, keywords = [], {}
    # The functions of torchlib have the signatures of the ATen schemas.
    schema = torch_private.schema_of(overload).arguments
    for value, argument in zip(map(unwrap_values, args), schema, strict=False):
        if not argument.kwarg_only:
            positional.append(value)
        elif value != argument.default_value:  # not all keywords of a schema are supported
            keywords[argument.name] = value
    return wrap_values(original(*positional, **keywords))


@functools.cache
def _find_in_torchlib(overload: OpOverload, opset: int) -> Callable[..., object] | None:
    # torchlib has further functions for complex tensors under the same operator.
    functions = torch_private.onnx_registry(opset).get_decomps(overload)
    return next((each.onnx_function for each in functions if not each.is_complex), None)
