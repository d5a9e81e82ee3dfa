"""The sets of rewriters that apply to an export: the caller's, and those of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.backend import load_hooks
from enginebay.hooks import RewritersRequest
from enginebay.plugins import load_backend, load_plugins, wrong_result
from enginebay.rewriting import RewriterSet, Target, list_rewriters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.params import IRKind
    from enginebay.rewriting import Rewriter


def rewriters_for(
    target: Target, callers: Sequence[RewriterSet] = (), *, builtin: bool = True
) -> list[RewriterSet]:
    """Return the sets of rewriters among which an export for a target selects.

    Args:
        target: What the model is exported for; without a backend, only sets for all backends.
        callers: The caller's sets, as :func:`find_sets` returns them.
        builtin: False to exclude Enginebay's own rewriters.

    Raises:
        PluginError: A plugin did not return a ``RewriterSet``, or Enginebay's own rewriters cannot
            be used.
    """
    plugins = plugin_rewriters(target.backend, target.ir, builtin=builtin)
    # In this order the report lists them.
    return sorted([*callers, *plugins], key=lambda each: not each.fallback)


def target_of(backend: str | None, ir: IRKind = "onnx", **fields: Any) -> Target:
    """Return the target of an export, with the operators that the backend declares.

    Args:
        backend: The backend's name; None for no backend.
        ir: The IR that the model is exported to.
        **fields: Other fields of the target. ``operators`` overrides the backend's list.
    """
    if backend:
        info = load_hooks(backend).info
        fields["lacking"] = info.lacking
        # An ONNX exporter translates torch's operators; the other IRs contain them.
        if ir != "onnx" and fields.get("operators") is None:
            fields["operators"] = info.operators
    return Target(backend=backend or "", ir=ir, **fields)


def plugin_rewriters(backend: str, ir: IRKind, *, builtin: bool = True) -> list[RewriterSet]:
    """Return the rewriters of a backend, and of all plugins that apply to every backend.

    Args:
        backend: The backend's name; empty for an export without a backend.
        ir: The IR of the export.
        builtin: False to exclude Enginebay's own rewriters.

    Raises:
        PluginError: A plugin did not return a ``RewriterSet``, or Enginebay's own rewriters cannot
            be used.
    """
    team = load_backend(backend) if backend else load_plugins()
    if builtin:
        team.check_core_plugins()
    request = RewritersRequest(backend=backend, ir=ir, builtin=builtin)
    results = team.call_all("rewriters", skip_raising=True, request=request)
    for status, rewriters in results:
        if not isinstance(rewriters, RewriterSet):
            raise wrong_result("rewriters", status, rewriters, "a RewriterSet")
    return [rewriters.from_distribution(status.distribution) for status, rewriters in results]


def find_rewriters(
    backend: str, ir: IRKind, callers: Sequence[RewriterSet] = ()
) -> dict[Rewriter, Rewriter | None]:
    """Return the rewriters for a backend; of several for the same name, the most specific is first.

    Args:
        backend: The backend's name.
        ir: The IR of the export.
        callers: The caller's sets, as :func:`find_sets` returns them.

    Returns:
        Rewriter → the rewriter that is used instead; None if it may be used itself.

    Raises:
        PluginError: As for :func:`rewriters_for`.
    """
    sets = rewriters_for(target_of(backend, ir), callers)
    return list_rewriters(sets, backend=backend, ir=ir)
