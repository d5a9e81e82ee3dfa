"""Symbolics in torch's TorchScript exporter: in its registry, and on autograd functions.

Checked with torch 2.13, where the exporter and its registry are private.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError
from enginebay.rewriting import names
from enginebay.rewriting.autograd_functions import NAMESPACE
from enginebay.rewriting.dynamo_graph import Graph
from enginebay.rewriting.names import Found
from enginebay.rewriting.patches import AttributePatch, Patch, patch_for, replace_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import ExitStack

    from enginebay.rewriting.rewriter import Rewriter


#: Operators that ``torch.jit.trace`` looks into, in torch 2.13.
_NOT_TRACED = {f"aten::conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)}
_NOT_TRACED |= {"aten::convolution"}

#: Operators that torch's functions of these names do not call any more, and what they call.
SUPERSEDED = {
    "aten::norm": "linalg_vector_norm",
    "aten::frobenius_norm": "linalg_vector_norm",
    "aten::nuclear_norm": "linalg_matrix_norm",
}


def qualified(operator: str) -> str:
    """Return an operator's name with its namespace: ``aten::squeeze`` for ``squeeze``."""
    return operator if "::" in operator else f"aten::{operator}"


class OperatorPatch(Patch):
    """An operator's symbolic in the registry of torch's TorchScript exporter."""

    def __init__(self, operator: str) -> None:
        self._operator = qualified(operator)
        super().__init__(("symbolic", self._operator))
        self._before: dict[int, Callable[..., Any]] = {}
        self._custom: set[int] = set()

    def install(self) -> None:
        """Register one function for every opset; it calls the thread's rewriter."""
        from torch.onnx import _constants

        group = _registry().get_function_group(self._operator)
        if group is not None:
            functions = group._functions
            self._before = {opset: functions[opset] for opset in functions}
            # An entry that the user registered hides torch's own; uninstall needs to know.
            self._custom = {each for each in functions if functions.overridden(each)}
        # The exporter uses the newest entry up to its opset. We replace every entry, and add one
        # at the oldest opset that it writes: so it always calls ours.
        for opset in {_constants.ONNX_BASE_OPSET, *self._before}:
            _registry().register(self._operator, opset, self.call, custom=True)

    def uninstall(self) -> None:
        """Put every entry of the registry back."""
        registry = _registry()
        if not self._before:
            registry._registry.pop(self._operator, None)
            return
        group = registry.get_function_group(self._operator)
        for opset in list(group._functions):
            if opset in self._custom:
                group.add_custom(self._before[opset], opset)
            elif group._functions.overridden(opset):
                group.remove_custom(opset)

    def original(self, g: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the operator's own symbolic of the running exporter, for its opset."""
        symbolic = g.original if isinstance(g, Graph) else self._torchscript_original(g)
        if symbolic is None:
            raise RewriterError(
                f'ctx.origin_func was called for "{self._operator}", '
                f"which has no symbolic of its own for opset {g.opset}"
            )
        return symbolic(g, *args, **kwargs)

    def _torchscript_original(self, g: Any) -> Callable[..., Any] | None:
        opset = max((each for each in self._before if each <= g.opset), default=None)
        return None if opset is None else self._before[opset]


class FunctionPatch(AttributePatch):
    """The ``symbolic`` of an autograd function that has none of its own."""

    def __init__(self, function: type, name: str) -> None:
        super().__init__(Found(function, "symbolic", staticmethod(_missing), inherited=True))
        self.original = functools.partial(_missing, name)

    def uninstall(self) -> None:
        """Remove the attribute, and the exporter's entry for it."""
        super().uninstall()
        # The exporter registers the symbolic of each autograd function that it meets, for good; the
        # next export would use it without a rewriter.
        _registry()._registry.pop(f"::{self.found.owner.__name__}", None)


def symbolic_of(function: type, name: str) -> Patch:
    """Return the patch of an autograd function's ``symbolic``, also where it has none."""
    found = names.attribute_of(function, "symbolic")
    return FunctionPatch(function, name) if found is None else patch_for(found)


def with_parsed_arguments(rewriter: Rewriter) -> Callable[..., Any]:
    """Return the replacement, with its arguments read as its descriptors say."""
    descriptors: Any = rewriter.arg_descriptors  # checked; torch's type is a Literal of them
    if descriptors is None:
        return rewriter.replacement
    from torch.onnx import symbolic_helper

    def replacement(ctx: Any, g: Any, *args: Any, **kwargs: Any) -> Any:
        function = functools.partial(rewriter.replacement, ctx)
        functools.update_wrapper(function, rewriter.replacement)
        # parse_args reads the signature, which would otherwise be the replacement's, with ctx.
        del vars(function)["__wrapped__"]
        return symbolic_helper.parse_args(*descriptors)(function)(g, *args, **kwargs)

    return replacement


def why_not_traced(operator: str) -> str:
    """Return why the exporter never translates an operator; empty where it does if it meets it."""
    import torch

    kind = qualified(operator)
    if kind in _NOT_TRACED:
        return "the tracer records _convolution in its place"
    # such as softsign, a Python function of torch: the tracer records the operators in it
    if kind.startswith("aten::") and not hasattr(torch.ops.aten, kind.removeprefix("aten::")):
        return "torch.ops has no such operator"
    return why_superseded(operator)


def why_superseded(operator: str) -> str:
    """Return which operator torch calls instead; empty where it is this one."""
    instead = SUPERSEDED.get(qualified(operator))
    return f"torch.norm calls {instead} in its place" if instead else ""


def watch_constants(
    undo: ExitStack, rewriters: Iterable[Rewriter], refuse: Callable[[Rewriter, str], None]
) -> None:
    """Refuse symbolics of what the exporter computes before it asks for them, until ``undo``."""
    import torch

    by_kind = {qualified(each.name): each for each in rewriters}

    def propagate(original: Callable[[Any], None], graph: Any) -> None:
        torch._C._jit_pass_dce(graph)  # what nothing uses vanishes, too, in the pass
        before = [node.kind() for node in graph.nodes()]
        original(graph)
        left = {node.kind() for node in graph.nodes()}
        for kind in dict.fromkeys(before):
            if kind in by_kind and kind not in left:
                refuse(by_kind[kind], "it computes what no input is part of")

    replace_functions(undo, {"torch._C._jit_pass_constant_propagation": propagate})


def has_symbolic(overload: Any, is_complex: bool) -> bool:
    """Return True if the TorchScript exporter translates an operator: none of complex numbers."""
    name = overload._schema.name
    if is_complex or name == "aten::stft":  # its stft gives no complex numbers, as torch's does
        return False
    if name.startswith(f"{NAMESPACE}::"):  # an autograd function, whose symbolic it finds itself
        return True
    # Asked anew each time: what a symbolic rewriter adds is there for the length of a context.
    return _registry().get_function_group(name) is not None


@functools.cache
def _registry() -> Any:
    """Return the TorchScript exporter's registry, with the symbolics of every opset in it."""
    # The exporter imports them when it first runs, and would hide what was registered before.
    import importlib
    import pkgutil

    from torch.onnx._internal import torchscript_exporter

    for module in pkgutil.iter_modules(torchscript_exporter.__path__):
        if module.name.startswith("symbolic_opset"):
            importlib.import_module(f"{torchscript_exporter.__name__}.{module.name}")
    return importlib.import_module(f"{torchscript_exporter.__name__}.registration").registry


def _missing(name: str, *_: Any) -> Any:
    raise RewriterError(
        f'ctx.origin_func was called for "{name}", which has no symbolic of its own'
    )
