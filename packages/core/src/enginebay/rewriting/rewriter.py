"""One rewriter, the target that it is chosen for, and the context that it is called with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from enginebay.ir import IRKind

RewriterKind: TypeAlias = Literal["function", "module", "symbolic", "lowering"]

Check: TypeAlias = "Callable[[Target], bool]"

#: What lowerings need, in words.
_NEEDS = {
    "dims": "fixed sizes",
    "complex": "complex numbers",
    "lacking": "engine without it",
}

#: The rewriters that gave way, each with its winner.
Lost: TypeAlias = "dict[Rewriter, Rewriter]"

#: The distribution of the rewriters that core ships.
CORE = "enginebay"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The target that a model is exported for.

    Attributes:
        backend: The backend's name.
        ir: The IR's kind, such as ``"onnx"``.
        opset: The requested ONNX opset; None where the exporter chooses.
        exporter: The exporter, such as ``"torchscript"``; None where it is not known.
        config: The deployment config; empty where there is none.
        operators: The operators that the backend says its engine has, such as ``aten.add``; None
            where it does not say.
        lacking: Operators that the backend says its engine lacks, where it lists no others.
        options: Every other keyword given to :func:`~enginebay.rewriting.rewrite`.
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
    """The first argument of every rewriter: the target of the export, and the original.

    It has the attributes of :class:`Target`, and one more.

    Attributes:
        origin_func: The original: called like the rewriter, without ``ctx``. For a module
            rewriter it is the original module.
    """

    origin_func: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Rewriter:
    """One declaration.

    Attributes:
        kind: The kind of thing that it rewrites.
        name: The dotted name of what it rewrites; for a symbolic an operator's name too, for a
            lowering nothing else.
        replacement: The function or the module class to use instead.
        backend: The backend it is for; None for every one.
        ir: The IR it is for; None for every one.
        versions: Version ranges by distribution, such as ``{"torch": ">=2.9"}``; all must hold.
        check: A condition of its own.
        distribution: The distribution that ships it; None for one that the caller declared.
        is_pytorch: For a symbolic: True if ``name`` is an operator of PyTorch.
        arg_descriptors: For a symbolic: one letter code for each argument.
        needs: For a lowering: what must be known of a call, or it does not apply.
    """

    kind: RewriterKind
    name: str
    replacement: Callable[..., Any]
    backend: str | None = None
    ir: IRKind | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    check: Check | None = None
    distribution: str | None = None
    is_pytorch: bool = False
    arg_descriptors: tuple[str, ...] | None = None
    needs: tuple[str, ...] = ()

    @property
    def condition(self) -> str:
        """The conditions in words: ``backend ncnn, torch>=2.9``, or ``always``."""
        parts = [f"backend {self.backend}"] if self.backend else []
        parts += [f"ir {self.ir}"] if self.ir else []
        parts += [f"{name}{wanted}" for name, wanted in self.versions.items()]
        parts += [f"check {_name_of(self.check)}"] if self.check else []
        parts += [_NEEDS[need] for need in self.needs]
        return ", ".join(parts) or "always"

    @property
    def rank(self) -> int:
        """Whose it is, the larger the more it counts: core's, a plugin's, or the caller's own."""
        return {CORE: 0, None: 2}.get(self.distribution, 1)

    @property
    def operator(self) -> str:
        """The operator that it is about, as in ``torch.ops``; else what it rewrites."""
        if self.kind == "lowering":
            return ".".join(self.name.split(".")[:2])
        if self.is_pytorch and "::" in self.name:
            return self.name.replace("::", ".")
        if self.is_pytorch or (self.kind == "function" and self.name.startswith("torch.")):
            last = self.name.rpartition(".")[2]  # torch.roll and torch.Tensor.roll are aten.roll
            return self.name.removeprefix("torch.ops.") if ".ops." in self.name else f"aten.{last}"
        return self.name

    @property
    def origin(self) -> str:
        """The replacement's own dotted name, for messages."""
        return f"{self.replacement.__module__}.{_name_of(self.replacement)}"


def _name_of(function: Any) -> str:
    # A functools.partial, for one, has no name.
    return getattr(function, "__qualname__", None) or repr(function)
