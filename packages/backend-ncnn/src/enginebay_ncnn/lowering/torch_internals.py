"""The functions of torch that the lowering needs and torch does not call public.

TorchScript has no public way to read a graph: the lowering uses ``inlined_graph``, the methods of
its nodes and values, and these functions. All are old. They are checked here, so that a version of
torch without them gives one clear error.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: torch's stubs do not have all of these functions.
_C: Any = torch._C

#: The names in ``torch._C`` that are used.
NEEDED = ("parse_schema", "_get_tracing_state", "_set_tracing_state")


def check() -> None:
    """Check that the installed torch has these functions.

    Raises:
        ConversionError: One is missing.
    """
    missing = [f"torch._C.{name}" for name in NEEDED if not hasattr(_C, name)]
    if missing:
        raise ConversionError(
            f"operators cannot be lowered with torch {torch.__version__}: it has no "
            f"{', '.join(missing)}",
            hint="pip install torch==2.13.0",
        )


def parse_schema(node: Any) -> Any:
    """Return the schema of a node's operator, with the overload's name and the arguments' names."""
    return _C.parse_schema(node.schema())


@contextmanager
def untraced() -> Iterator[None]:
    """Stop tracing inside the block."""
    state = _C._get_tracing_state()
    _C._set_tracing_state(None)
    try:
        yield
    finally:
        _C._set_tracing_state(state)
