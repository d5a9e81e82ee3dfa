"""Opting out of a law, which needs a reason."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


class OptOut(NamedTuple):
    """The value of :func:`xfail`, which a class holds until it is complete."""

    reason: str


def xfail(*, reason: str) -> Any:
    """Opt out of the law whose name this is assigned to.

    The law still runs. Where it holds, the test fails: the reason is out of date.

    Args:
        reason: Why the backend cannot keep the law; it stands in the report.

    Example:
        In a subclass of :class:`~enginebay.testing.Conformance`::

            test_calls_may_overlap = xfail(reason="the engine has one context for all threads")
    """
    if not reason.strip():
        raise ValueError("xfail() needs a reason: xfail(reason='why the law cannot be kept')")
    return OptOut(reason)


def apply_opt_outs(owner: type, laws: dict[str, Callable[..., None]]) -> None:
    """Turn the opt-outs of a class into tests that are expected to fail.

    Raises:
        TypeError: The class replaces a law by something else, or opts out of what is no law.
    """
    for name, value in list(vars(owner).items()):
        if isinstance(value, OptOut):
            if name not in laws:
                raise TypeError(f"{owner.__name__} opts out of '{name}', which is no law")
            setattr(owner, name, _expected_to_fail(laws[name], value.reason))
        elif name in laws:
            raise TypeError(
                f"{owner.__name__} replaces the law '{name}'; to opt out of it, write "
                f"{name} = xfail(reason='why')"
            )


def _expected_to_fail(law: Callable[..., None], reason: str) -> Any:
    @functools.wraps(law)
    def opted_out(*args: Any, **kwargs: Any) -> None:
        law(*args, **kwargs)

    opted_out.pytestmark = list(getattr(law, "pytestmark", []))  # type: ignore[attr-defined]  # pytest's own name; the law keeps its list
    return pytest.mark.xfail(reason=reason, strict=True)(opted_out)
