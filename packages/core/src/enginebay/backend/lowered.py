"""The function ``ConvertRequest.lower``, for backends that capture models themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor, nn
    from torch.export import ExportedProgram

    from enginebay.ir import IRKind
    from enginebay.rewriting import RewriteReport, RewriterKind, RewriterSet


#: A captured graph contains only operators: it calls no functions and modules to rewrite.
_KINDS: tuple[RewriterKind, ...] = ("lowering",)


class Lowering:
    """Lowers modules to the operators of an engine, during one conversion.

    Args:
        backend: The backend's name.
        ir: The kind of the IR that is converted.
        rewriters: The caller's rewriters.
        plugins: A function that returns the plugins' rewriters.

    Attributes:
        report: The report of the lowerings in the last call; None before the first call.
    """

    def __init__(
        self,
        backend: str,
        ir: IRKind,
        rewriters: Sequence[RewriterSet],
        plugins: Callable[[], Sequence[RewriterSet]],
    ) -> None:
        self.report: RewriteReport | None = None
        self._backend = backend
        self._ir = ir
        self._rewriters = rewriters
        self._plugins = plugins

    def __call__(
        self, module: nn.Module, inputs: Sequence[Tensor], operators: frozenset[str]
    ) -> ExportedProgram:
        """Capture a module's graph with example inputs, and return the lowered graph.

        Raises:
            RewriterError: A lowering is invalid.
            LackingOperatorsError: The lowered graph contains operators that the engine does not
                support.
        """
        from enginebay.rewriting import active_lowerings, capture, lower_program, rewrite

        rewriting = rewrite(
            backend=self._backend,
            ir=self._ir,
            rewriters=[*self._rewriters, *self._plugins()],
            operators=operators,
            kinds=_KINDS,
        )
        try:
            with rewriting:
                lowerings = active_lowerings()
                program = capture(module, inputs)
                return program if lowerings is None else lower_program(program, lowerings)
        finally:
            self.report = rewriting.report
