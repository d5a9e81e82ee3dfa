"""Constants that onnxscript's optimiser leaves as they are."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.rewriting import NameNotFoundError, replace_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: In onnxscript 0.7. Of the rules that torch.onnx.export applies, six match a constant: x + 0,
#: 0 + x, x - 0, x * 1, 1 * x and x / 1. It takes 1e-8 for 0 and 1.00001 for 1.
_MATCH = "onnxscript.rewriter._matcher.SimplePatternMatcher._match_constant"


@contextmanager
def exact_constants() -> Iterator[bool]:
    """Keep the epsilon of ``x / (x.sum() + 1e-10)``, without which zeros become NaN.

    Yields:
        True if the optimiser now compares constants exactly; False if this onnxscript has another
        optimiser, which is not to be trusted with them.
    """
    import onnxscript.rewriter  # noqa: F401 - replace_functions finds only what is loaded

    with ExitStack() as undo:
        try:
            replace_functions(undo, {_MATCH: _match_exactly})
        except NameNotFoundError:
            yield False
        else:
            yield True


def _match_exactly(original: Callable[..., bool], matcher: Any, pattern: Any, value: Any) -> bool:
    return original(matcher, type(pattern)(pattern.value, rel_tol=0.0, abs_tol=0.0), value)
