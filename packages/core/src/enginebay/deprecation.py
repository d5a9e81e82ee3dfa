"""How something public goes: with a visible warning, in a version that is named beforehand."""

from __future__ import annotations


class Deprecated(FutureWarning):
    """Something still works, and will be gone.

    A FutureWarning and not a DeprecationWarning: Python hides those from everybody but the
    authors of the code that is run, and whoever runs a plugin should see that it needs an update.

    Warn with it where the old thing is used, or give it to pluggy with the hook::

        warnings.warn(
            Deprecated("Wrapper.run()", since="0.2", removed_in="0.4", instead="Wrapper()"),
            stacklevel=2,
        )

        @hookspec(warn_on_impl=Deprecated("hook prepare", since=..., removed_in=..., instead=...))
        def prepare(request): ...

    Write the versions as texts where it is made: a test reads them in the source, and fails from
    the version on in which the old thing should be gone.

    Args:
        what: What was used, as people write it.
        since: The version of Enginebay that warned first.
        removed_in: The version that will not have it any more: two minor versions later at least,
            or the next major one.
        instead: What to write now.

    Example:
        >>> print(Deprecated("f(x)", since="0.2", removed_in="0.4", instead="g(x)"))
        f(x) is deprecated since Enginebay 0.2 and will be gone in 0.4; write g(x)
    """

    def __init__(self, what: str, *, since: str, removed_in: str, instead: str) -> None:
        super().__init__(
            f"{what} is deprecated since Enginebay {since} and will be gone in {removed_in}; "
            f"write {instead}"
        )
