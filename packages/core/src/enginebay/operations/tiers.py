"""Check of a backend in four stages (``Tier``), each in a child process with a time limit."""

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
    """Return the results of all stages; after a failed stage, all later stages are skipped.

    Args:
        name: The backend's name.
        params: The parameters to check with.
        with_custom_ops: True to load the custom operators in ``params`` too.
        timeout: The time limit of each stage in seconds.
        log: A function that is called at the end of each stage, with one line for each check.
    """
    report = EnvReport()
    for tier in Tier:
        if (cause := report.failed) is not None:
            tier_report = skipped(tier, tier.value, found=f"{cause.name} failed before")
        else:
            tier_report = _check_tier(name, tier, params, with_custom_ops, timeout)
        report += tier_report
        if log:
            for check in tier_report.checks:
                log(f"{check.tier}: {check.name}: {check.status}, {check.found}")
    return report


def _check_tier(
    name: str, tier: Tier, params: BackendParams, with_custom_ops: bool, timeout: float
) -> EnvReport:
    from enginebay.isolation import call

    try:
        return call(
            "enginebay.operations.checking:check_tier",
            name,
            tier,
            params.to_mapping(),
            with_custom_ops,
            timeout=timeout,
            result_type=EnvReport,
        )
    # A crash or a time-out of the child process is a failed check as well.
    except IsolationError as err:
        return failed(tier, tier.value, found=str(err), fix=err.hint or "")
