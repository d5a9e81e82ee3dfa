"""Shared by the stand-ins: the recorded calls and the faults to inject."""

from __future__ import annotations

from typing import Any

#: The calls, in order.
LOG: list[Any] = []
#: The real configs of builds, for tests to look at.
CONFIGS: list[Any] = []
#: The real profiles of builds.
PROFILES: list[Any] = []
#: What to do wrong, by name.
FAULTS: dict[str, Any] = {}


def dims_of(value: Any) -> tuple[int, ...]:
    shape = value.type.tensor_type.shape
    return tuple(d.dim_value if d.HasField("dim_value") else -1 for d in shape.dim)


def value_of(name: str, kind: Any) -> property:
    def fget(self: Any) -> Any:
        return self._values[name]

    def fset(self: Any, value: Any) -> None:
        assert isinstance(value, kind), (name, value)
        self._values[name] = value

    return property(fget, fset)


class ParserError:
    """``ParserError``."""

    def __init__(self, node: Any, text: str, code: Any) -> None:
        self._node, self._format_dims, self._code = node, text, code

    def node_name(self) -> str:
        return self._node.name if self._node is not None else ""

    def node_operator(self) -> str:
        return self._node.op_type if self._node is not None else ""

    def desc(self) -> str:
        return self._format_dims

    def code(self) -> Any:
        return self._code
