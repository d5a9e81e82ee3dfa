"""The operators that a run of a model meets, found out without a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def operators_met(run: Callable[[], Any]) -> set[str]:
    """Return the names of operators, without namespace and overload, that a run may have met.

    Those that torch composes of others, such as ``linear``, never reach a dispatch mode, and so
    the functions that the model calls count too.

    Args:
        run: Runs the model.
    """
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    names: set[str] = set()

    class Functions(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            names.add(getattr(func, "__name__", ""))
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            names.add(func._schema.name.partition("::")[2])
            return func(*args, **(kwargs or {}))

    with Operators(), Functions():  # type: ignore[no-untyped-call]  # as above
        run()
    return {name.rstrip("_") for name in names}
