"""Observation of the operators that a model calls, without a capture of its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay import torch_private

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.rewriting.lowering.operators import Args, Kwargs
    from enginebay.torch_private import OpOverload

    Function = Callable[..., object]


def observed_name(overload: OpOverload, *, is_complex: bool) -> str:
    """Return an operator's name as :func:`observe_operators` returns it, such as ``mul``."""
    return _format_name(
        torch_private.schema_of(overload).name.partition("::")[2], is_complex=is_complex
    )


def _format_name(name: str, *, is_complex: bool) -> str:
    return f"{name} of complex numbers" if is_complex else name


def observe_operators(run: Callable[[], object]) -> set[str]:
    """Run a model, and return the names of the operators that it calls, such as ``mul``.

    A call with complex numbers adds a second name, such as ``mul of complex numbers``.

    Args:
        run: A function that runs the model.
    """
    from torch.overrides import TorchFunctionMode

    from enginebay.rewriting.lowering.operators import are_complex

    names: set[str] = set()

    def add_name(name: str, args: object, kwargs: object) -> None:
        name = name.rstrip("_")  # captured graphs have no in-place operators
        names.add(name)
        if are_complex(args, kwargs):
            names.add(_format_name(name, is_complex=True))

    # Composite operators such as linear never reach a dispatch mode, so that the functions which
    # the model calls are added too.
    class FunctionObserver(TorchFunctionMode):
        def __torch_function__(
            self, func: Function, _: object, args: Args = (), kwargs: Kwargs | None = None
        ) -> object:
            add_name(getattr(func, "__name__", ""), args, kwargs)
            return func(*args, **(kwargs or {}))

    dispatch_mode: Any = torch_private.dispatch_mode_class()

    class OperatorObserver(dispatch_mode):  # type: ignore[misc]  # its base is found at run time
        def __torch_dispatch__(
            self, func: OpOverload, _: object, args: Args = (), kwargs: Kwargs | None = None
        ) -> object:
            add_name(torch_private.schema_of(func).name.partition("::")[2], args, kwargs)
            return func(*args, **(kwargs or {}))

    with OperatorObserver(), FunctionObserver():
        run()
    return names
