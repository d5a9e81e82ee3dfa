"""Repair of onnxscript's graph optimiser: some of its rules would change a model's results."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from enginebay.rewriting import NameNotFoundError, replace_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onnxscript.rewriter._pattern_ir import Constant

#: The package of the optimiser's rules; private, as of onnxscript 0.7.
_RULES = "onnxscript.rewriter.rules.common"


@contextmanager
def repair_optimiser() -> Iterator[bool]:
    """Repair or disable the rules of onnxscript 0.7's optimiser that change results.

    Yields:
        True if all rules were found; False if this version of onnxscript has a different
        optimiser, which must not be used.
    """
    import onnxscript.rewriter  # noqa: F401 - replace_functions finds only loaded modules

    with ExitStack() as undo:
        try:
            replace_functions(undo, _REPLACEMENTS)
        except NameNotFoundError:
            yield False
        else:
            yield True


def _match_exactly(
    original: Callable[..., bool], matcher: object, pattern: Constant, value: object
) -> bool:
    return original(matcher, type(pattern)(pattern.value, rel_tol=0.0, abs_tol=0.0), value)


def _never_applies(*_: object, **__: object) -> bool:
    return False


_REPLACEMENTS = {
    # Six rules match a constant: x + 0, 0 + x, x - 0, x * 1, 1 * x and x / 1. The matcher accepts
    # 1e-8 as 0 and 1.00001 as 1. Without the epsilon, x / (x.sum() + 1e-10) is NaN for zeros.
    "onnxscript.rewriter._matcher.SimplePatternMatcher._match_constant": _match_exactly,
    # Drops the reshapes around a MatMul if the shapes before them broadcast too. The product may
    # differ: 2×2×4×8 by 2×8×4 is not 4×4×8 by 2·2 stacked matrices.
    f"{_RULES}._broadcast_to_matmul.check_if_not_need_reshape": _never_applies,
    # Clip(Clip(x)) becomes the intersection of both ranges, even if that is empty. And both rules
    # name the new bounds after x, so that two clips of one x share the bounds of the first.
    f"{_RULES}._fuse_relus_clips._FuseReluClipBase.check": _never_applies,
    f"{_RULES}._min_max_to_clip._FuseMinMaxBase.check": _never_applies,
}
