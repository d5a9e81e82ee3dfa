"""What the lowering takes from torch that torch does not call public.

TorchScript has no public way to read a graph: ``inlined_graph`` and the methods of its nodes and
values are used as they are, and these functions besides. All are old, and looked for here, so that
another version of torch without them is told of in one line.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Names in ``torch._C`` that are used.
NEEDED = ("parse_schema", "_get_tracing_state", "_set_tracing_state")


def check() -> None:
    """Refuse a version of torch that lacks something.

    Raises:
        ConversionError: Names what is missing.
    """
    missing = [f"torch._C.{name}" for name in NEEDED if not hasattr(torch._C, name)]
    if missing:
        raise ConversionError(
            f"operators cannot be lowered with torch {torch.__version__}: it has no "
            f"{', '.join(missing)}",
            hint="pip install torch==2.13.0",
        )


def parse_schema(node: Any) -> Any:
    """The schema of a node's operator: its overload's name, and which arguments go by name."""
    return torch._C.parse_schema(node.schema())


@contextmanager
def untraced() -> Iterator[None]:
    """Let what happens inside not be traced."""
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)  # type: ignore[attr-defined]  # its stubs lack it
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)  # type: ignore[attr-defined]  # see above
