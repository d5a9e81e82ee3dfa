"""Opt-outs: a backend declares, with a reason, that it cannot pass a conformance test."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


class OptOut(NamedTuple):
    """Marker that :func:`xfail` returns, with the reason why a backend cannot pass a test."""

    reason: str


def xfail(*, reason: str) -> Any:
    """Opt out of a conformance test: assign the result to the test's name in a subclass.

    The test still runs. If it passes, pytest reports a failure, because the reason is out of date.

    Args:
        reason: Why the backend cannot pass the test, for the report.

    Example:
        In a subclass of :class:`~enginebay_testing.Conformance`::

            test_calls_may_overlap = xfail(reason="the engine has one context for all threads")
    """
    if not reason.strip():
        raise ValueError("xfail() requires a reason: xfail(reason='why the test cannot pass')")
    return OptOut(reason)


def apply_opt_outs(owner: type, laws: dict[str, Callable[..., None]]) -> None:
    """Turn the opt-outs of a class into tests that are expected to fail.

    Raises:
        TypeError: The class overrides a conformance test without :func:`xfail`, or opts out of an
            unknown test.
    """
    for name, value in list(vars(owner).items()):
        if isinstance(value, OptOut):
            if name not in laws:
                raise TypeError(
                    f"{owner.__name__} opts out of '{name}', which is no conformance test"
                )
            setattr(owner, name, _wrap_in_xfail(laws[name], value.reason))
        # A test that a subclass overrides would pass without testing anything.
        elif name in laws:
            raise TypeError(
                f"{owner.__name__} overrides the conformance test '{name}'; to opt out, write "
                f"{name} = xfail(reason='why')"
            )


def _wrap_in_xfail(law: Callable[..., None], reason: str) -> object:
    @functools.wraps(law)
    def run_law(*args: object, **kwargs: object) -> None:
        law(*args, **kwargs)

    run_law.pytestmark = list(getattr(law, "pytestmark", []))  # type: ignore[attr-defined]  # pytest's name; a copy, so that the law's list is unchanged
    # Strict: a test that passes again makes its opt-out an error.
    return pytest.mark.xfail(reason=reason, strict=True)(run_law)
