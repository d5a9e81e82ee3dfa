"""onnxscript's optimiser without the rules that change what a model computes."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.rewriting import NameNotFoundError, replace_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RULES = "onnxscript.rewriter.rules.common"


@contextmanager
def sound_optimiser() -> Iterator[bool]:
    """Repair or switch off the rules of onnxscript 0.7 that change results.

    Yields:
        True if all of them were found; False if this onnxscript has another optimiser, which is
        not to be trusted.
    """
    import onnxscript.rewriter  # noqa: F401 - replace_functions finds only what is loaded

    with ExitStack() as undo:
        try:
            replace_functions(undo, _REPLACEMENTS)
        except NameNotFoundError:
            yield False
        else:
            yield True


def _match_exactly(original: Callable[..., bool], matcher: Any, pattern: Any, value: Any) -> bool:
    return original(matcher, type(pattern)(pattern.value, rel_tol=0.0, abs_tol=0.0), value)


def _never_applies(*_: Any, **__: Any) -> bool:
    return False


_REPLACEMENTS = {
    # Six rules match a constant: x + 0, 0 + x, x - 0, x * 1, 1 * x and x / 1. The matcher takes
    # 1e-8 for 0 and 1.00001 for 1, and without its epsilon x / (x.sum() + 1e-10) is NaN for zeros.
    "onnxscript.rewriter._matcher.SimplePatternMatcher._match_constant": _match_exactly,
    # Drops the reshapes around a MatMul where the shapes before them broadcast too, which may be
    # another product: 2×2×4×8 by 2×8×4 is not 4×4×8 by 2·2 stacked matrices.
    f"{_RULES}._broadcast_to_matmul.check_if_not_need_reshape": _never_applies,
    # Clip(Clip(x)) becomes the intersection of both ranges, also where that is empty. And each
    # rule names its bounds after x, so that two of them on one x share the bounds of the first.
    f"{_RULES}._fuse_relus_clips._FuseReluClipBase.check": _never_applies,
    f"{_RULES}._min_max_to_clip._FuseMinMaxBase.check": _never_applies,
}
