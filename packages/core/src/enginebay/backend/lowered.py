"""What a backend that lowers models itself calls for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor
    from torch.export import ExportedProgram

    from enginebay.ir import IRKind
    from enginebay.rewriting import RewriteReport, RewriterKind, RewriterSet


#: A captured graph calls no function or module any more.
_KINDS: tuple[RewriterKind, ...] = ("lowering",)


class Lowering:
    """Lowers modules for one conversion.

    Args:
        backend: The name of the backend that converts.
        ir: The IR that it converts from.
        rewriters: The caller's own.
        plugins: Returns the rewriters that the plugins contribute.

    Attributes:
        report: The lowerings of the last call; None before it.
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
        self, module: Any, inputs: Sequence[Tensor], operators: frozenset[str]
    ) -> ExportedProgram:
        """Capture a module and lower it to the operators that the engine has.

        Raises:
            RewriterError: A lowering is wrong.
            LackingOperatorsError: Operators are left that the engine does not have.
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
