"""A rewriter, the target for which rewriters are selected, and a replacement's ``ctx`` argument."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec

from enginebay.params import IRKind

RewriterKind: TypeAlias = Literal["function", "module", "symbolic", "lowering"]

Check: TypeAlias = "Callable[[Target], bool]"

#: The requirements that a lowering may declare, with their texts for reports.
NEEDS = {
    "dims": "fixed sizes",
    "complex": "complex numbers",
    "lacking": "unsupported operator",
}

#: What two declarations of the same rewriter have in common.
_IDENTITY = ("kind", "name", "subject", "origin", "condition", "check", "arg_descriptors")

#: Returns the context of a rewriter for its original function or module.
MakeContext: TypeAlias = "Callable[[Callable[..., object]], Context]"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is exported for: backend, IR, exporter and options.

    Attributes:
        backend: The backend's name.
        ir: The IR's kind, such as ``"onnx"``.
        opset: The requested ONNX opset; None for the exporter's default.
        exporter: The exporter, such as ``"torchscript"``; None if unknown.
        config: The deployment config; empty without one.
        operators: The operators that the backend lists as supported, such as ``aten.add``; None if
            the backend has no such list.
        lacking: The operators that the backend lists as unsupported; used only if ``operators`` is
            None.
        options: All other keyword arguments of :func:`enginebay.rewrite`.
    """

    backend: str
    ir: IRKind = "onnx"
    opset: int | None = None
    exporter: str | None = None
    operators: Collection[str] | None = None
    lacking: Collection[str] = ()
    config: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}


class Context(Target, frozen=True, kw_only=True):
    """The first argument of a replacement: the target of the export, and the original function.

    A lowering receives a :class:`~enginebay.authors.LoweringContext` instead.

    Attributes:
        origin_func: The original function, which takes the same arguments but no ``ctx``. For a
            module rewriter it is the original module.
    """

    origin_func: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Rewriter:
    """A declared rewriter.

    Attributes:
        kind: ``function``, ``module``, ``symbolic`` or ``lowering``.
        name: The dotted name of the function, module class or autograd function to rewrite, or the
            name of an operator (for a lowering, and for a symbolic of an operator).
        replacement: The function or the module class to use instead.
        backend: The only backend for which the rewriter applies; None for all backends.
        ir: The only IR for which the rewriter applies; None for all IRs.
        versions: Version ranges by distribution, such as ``{"torch": ">=2.9"}``; all must match.
        check: A function that takes the target and returns True if the rewriter applies; None if
            the rewriter has no such condition.
        distribution: The distribution that ships the rewriter; None for a rewriter of the caller.
        fallback: True if all other rewriters of the same name take precedence.
        is_pytorch: For a symbolic: True if ``name`` is an operator of PyTorch.
        arg_descriptors: For a symbolic: one letter code for each argument, or None to pass the
            arguments as they are.
        needs: For a lowering: its further requirements, which are keys of ``NEEDS``.
        subject: The class or function to rewrite, if the caller passed it instead of its name.
    """

    kind: RewriterKind
    name: str
    replacement: Callable[..., Any]
    backend: str | None = None
    ir: IRKind | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    check: Check | None = None
    distribution: str | None = None
    fallback: bool = False
    is_pytorch: bool = False
    arg_descriptors: tuple[str, ...] | None = None
    needs: tuple[str, ...] = ()
    subject: object = None

    def repeats(self, other: Rewriter) -> bool:
        """Return True for the same declaration, as of a notebook's cell that has run twice."""
        same = all(getattr(self, name) == getattr(other, name) for name in _IDENTITY)
        named = self.origin.rpartition(".")[2] not in ("_", "<lambda>")
        return same and (self.replacement is other.replacement or named)

    def add_note(self, err: BaseException) -> None:
        """Note on an error that this rewriter raised it, and what it rewrites."""
        err.add_note(f'in the {self.kind} rewriter of "{self.name}"')

    @cached_property
    def condition(self) -> str:
        """The conditions as text, such as ``backend ncnn, torch>=2.9``; ``always`` without any."""
        parts = [f"backend {self.backend}"] if self.backend else []
        parts += [f"ir {self.ir}"] if self.ir else []
        parts += [f"{name}{specifier}" for name, specifier in self.versions.items()]
        parts += [f"check {_qualified_name(self.check)}"] if self.check else []
        parts += [NEEDS[need] for need in self.needs]
        return ", ".join(parts) or "always"

    @cached_property
    def rank(self) -> int:
        """The precedence: 2 (first) for the caller's rewriters, 1 for plugins', 0 for fallbacks."""
        if self.fallback:
            return 0
        return 2 if self.distribution is None else 1

    @cached_property
    def operator(self) -> str:
        """The replaced torch operator, such as ``aten.roll``; ``name`` for any other object."""
        if self.kind == "lowering":
            return ".".join(self.name.split(".")[:2])
        if self.is_pytorch and "::" in self.name:
            return self.name.replace("::", ".")
        if self.is_pytorch or (self.kind == "function" and self.name.startswith("torch.")):
            last = self.name.rpartition(".")[2]  # torch.roll and torch.Tensor.roll are aten.roll
            return self.name.removeprefix("torch.ops.") if ".ops." in self.name else f"aten.{last}"
        return self.name

    @cached_property
    def origin(self) -> str:
        """The replacement's dotted name, for messages."""
        return f"{self.replacement.__module__}.{_qualified_name(self.replacement)}"


def _qualified_name(function: object) -> str:
    # A functools.partial, for example, has no name.
    return getattr(function, "__qualname__", None) or repr(function)
