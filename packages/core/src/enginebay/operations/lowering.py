"""The function ``ConvertRequest.lower``, for backends that capture models themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn
    from torch.export import ExportedProgram

    from enginebay.params import IRKind
    from enginebay.rewriting import RewriteReport, RewriterKind, RewriterSet


#: A captured graph contains only operators: it calls no functions and modules to rewrite.
_KINDS: tuple[RewriterKind, ...] = ("lowering",)


class Lowering:
    """Lowers modules to the operators of an engine, during one conversion.

    Args:
        backend: The backend's name.
        ir: The kind of the IR that is converted.
        rewriters: The caller's rewriters; the plugins' rewriters are added.

    Attributes:
        report: The report of the lowerings in the last call; None before the first call.
    """

    def __init__(self, backend: str, ir: IRKind, rewriters: Sequence[RewriterSet] = ()) -> None:
        self.report: RewriteReport | None = None
        self._backend = backend
        self._ir = ir
        self._rewriters = rewriters

    def __call__(
        self, module: nn.Module, inputs: Sequence[Tensor], operators: frozenset[str]
    ) -> ExportedProgram:
        """Capture a module's graph with example inputs, and return the lowered graph.

        Raises:
            RewriterError: A lowering is invalid.
            LackingOperatorsError: The lowered graph contains operators that the engine does not
                support.
        """
        # Not at the top: most users of a backend never lower a model.
        from enginebay.operations.rewriter_sets import rewriters_for, target_of
        from enginebay.rewriting import Rewriting, active_lowerings, capture, lower_program

        target = target_of(self._backend, self._ir, operators=operators)
        sets = rewriters_for(target, self._rewriters)
        rewriting = Rewriting(None, target, sets, kinds=_KINDS)
        try:
            with rewriting:
                lowerings = active_lowerings()
                program = capture(module, inputs)
                return program if lowerings is None else lower_program(program, lowerings)
        finally:
            self.report = rewriting.report
