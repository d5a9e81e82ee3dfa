"""Symbolics in torch's TorchScript exporter: its registry, and autograd functions' own ones."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError
from enginebay.rewriting import names
from enginebay.rewriting.names import Found
from enginebay.rewriting.python_functions import AttributePatch, Patch, patch_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.rewriting.declaration import Rewriter


def qualified(operator: str) -> str:
    """An operator's name with its namespace: ``aten::squeeze`` for ``squeeze``."""
    return operator if "::" in operator else f"aten::{operator}"


class OperatorPatch(Patch):
    """The symbolic of an operator in the registry of torch's TorchScript exporter."""

    def __init__(self, operator: str) -> None:
        self._operator = qualified(operator)
        super().__init__(("symbolic", self._operator))
        self._before: dict[int, Callable[..., Any]] = {}
        self._custom: set[int] = set()

    def install(self) -> None:
        """Register one function for every opset; it finds the thread's rewriter."""
        from torch.onnx import _constants

        group = _registry().get_function_group(self._operator)
        if group is not None:
            functions = group._functions
            self._before = {opset: functions[opset] for opset in functions}
            self._custom = {each for each in functions if functions.overridden(each)}
        # An exporter takes the newest entry up to its opset. With one at the oldest opset that
        # it writes, and every other one exchanged, it always arrives here.
        for opset in {_constants.ONNX_BASE_OPSET, *self._before}:
            _registry().register(self._operator, opset, self._symbolic, custom=True)

    def uninstall(self) -> None:
        """Give the registry back every entry that it had."""
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
        """The operator's own symbolic for the exporter and the opset of the running export."""
        from enginebay.rewriting.dynamo_symbolics import Graph

        own = g.original if isinstance(g, Graph) else self._torchscript_original(g)
        if own is None:
            raise RewriterError(
                f'ctx.origin_func was called for "{self._operator}", '
                f"which has no symbolic of its own for opset {g.opset}"
            )
        return own(g, *args, **kwargs)

    def _torchscript_original(self, g: Any) -> Callable[..., Any] | None:
        opset = max((each for each in self._before if each <= g.opset), default=None)
        return None if opset is None else self._before[opset]

    def _symbolic(self, g: Any, *args: Any, **kwargs: Any) -> Any:
        return self.call(g, *args, **kwargs)


class FunctionPatch(AttributePatch):
    """The ``symbolic`` of an autograd function that has none of its own."""

    def __init__(self, function: type, name: str) -> None:
        super().__init__(Found(function, "symbolic", staticmethod(_missing), inherited=True))
        self.original = functools.partial(_missing, name)

    def uninstall(self) -> None:
        """Take the attribute away, and what the exporter has noted of it."""
        super().uninstall()
        # The exporter registers the symbolic of each autograd function that it meets, for good.
        _registry()._registry.pop(f"::{self.found.owner.__name__}", None)


def symbolic_of(function: type, name: str) -> Patch:
    """The patch of an autograd function's ``symbolic``, also where it has none."""
    found = names.of(function, "symbolic")
    return FunctionPatch(function, name) if found is None else patch_for(found)


def with_parsed_arguments(rewriter: Rewriter) -> Callable[..., Any]:
    """The replacement, with its tensors and constants read as its descriptors say."""
    descriptors = rewriter.arg_descriptors
    if descriptors is None:
        return rewriter.replacement
    from torch.onnx import symbolic_helper

    def replacement(ctx: Any, g: Any, *args: Any, **kwargs: Any) -> Any:
        function = functools.partial(rewriter.replacement, ctx)
        functools.update_wrapper(function, rewriter.replacement)
        function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # read by parse_args
        parse = symbolic_helper.parse_args(*descriptors)  # type: ignore[arg-type]  # torch checks them
        return parse(function)(g, *args, **kwargs)

    return replacement


@functools.cache
def _registry() -> Any:
    """The TorchScript exporter's registry, with the symbolics of every opset in it.

    The exporter itself reads these in when it first runs, and would hide what was put in before.
    """
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
