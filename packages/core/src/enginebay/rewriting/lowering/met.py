"""The operators that a run of a model meets, found out without a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch._ops import OpOverload


def met_as(overload: OpOverload, *, is_complex: bool) -> str:
    """Return what :func:`operators_met` calls an operator."""
    return _name(overload._schema.name.partition("::")[2], is_complex=is_complex)


def _name(name: str, *, is_complex: bool) -> str:
    return f"{name} of complex numbers" if is_complex else name


def operators_met(run: Callable[[], Any]) -> set[str]:
    """Return the names of operators, without namespace and overload, that a run may have met.

    What was called with complex numbers has two names: see :func:`met_as`.

    Those that torch composes of others, such as ``linear``, never reach a dispatch mode, and so
    the functions that the model calls count too.

    Args:
        run: Runs the model.
    """
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    from enginebay.rewriting.lowering.operators import are_complex

    names: set[str] = set()

    def meet(name: str, args: Any, kwargs: Any) -> None:
        name = name.rstrip("_")
        names.add(name)
        if are_complex(args, kwargs):
            names.add(_name(name, is_complex=True))

    class Functions(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            meet(getattr(func, "__name__", ""), args, kwargs)
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            meet(func._schema.name.partition("::")[2], args, kwargs)
            return func(*args, **(kwargs or {}))

    with Operators(), Functions():  # type: ignore[no-untyped-call]  # as above
        run()
    return names
