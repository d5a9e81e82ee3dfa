"""Check in four tiers if a backend is usable, each in a child process with a time limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.environment import EnvReport, Tier, failed, skipped
from enginebay.errors import IsolationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.params import BackendParams


def check_environment(
    name: str,
    params: BackendParams,
    *,
    with_custom_ops: bool,
    timeout: float,
    log: Callable[[str], object] | None,
) -> EnvReport:
    """Run the tiers in order; after a failed tier, the rest is reported as skipped.

    Args:
        name: The backend.
        params: The parameters to check with.
        with_custom_ops: Whether its custom-op libraries must load too.
        timeout: Seconds that each tier may take.
        log: Gets a line for each check.
    """
    report = EnvReport()
    for tier in Tier:
        if (cause := report.failed) is not None:
            found = skipped(tier, tier.value, found=f"{cause.name} failed before")
        else:
            found = _check_tier(name, tier, params, with_custom_ops, timeout)
        report += found
        if log:
            for check in found.checks:
                log(f"{check.tier}: {check.name}: {check.status}, {check.found}")
    return report


def _check_tier(
    name: str, tier: Tier, params: BackendParams, with_custom_ops: bool, timeout: float
) -> EnvReport:
    from enginebay.isolation import call

    try:
        return call(
            "enginebay.backend.checking:check_tier",
            name,
            tier,
            params.to_mapping(),
            with_custom_ops,
            timeout=timeout,
            result_type=EnvReport,
        )
    except IsolationError as err:
        return failed(tier, tier.value, found=str(err), fix=err.hint or "")
