"""Check of a backend in four stages (``Tier``), in a child process, with a time limit for each.

One process for all stages: a plugin of somebody else may take long to import.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from enginebay.environment import EnvReport, Tier, failed, skipped
from enginebay.errors import IsolationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.params import BackendParams

_FUNCTION = "enginebay.operations.checking:serve_tiers"


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
    from enginebay.isolation import Worker

    report = EnvReport()
    with ExitStack() as stack:
        for tier in Tier:
            if (cause := report.failed) is not None:
                tier_report = skipped(tier, tier.value, found=f"{cause.name} failed before")
            else:
                # A crash or a time-out of the child process is a failed check as well.
                try:
                    if tier is Tier.METADATA:
                        arguments = (name, params.to_mapping(), with_custom_ops)
                        worker = stack.enter_context(Worker(name, _FUNCTION, *arguments))
                        worker.receive(timeout)
                    worker.send(tier.encode())
                    tier_report = msgspec.json.decode(worker.receive(timeout), type=EnvReport)
                except IsolationError as err:
                    tier_report = failed(tier, tier.value, found=str(err), fix=err.hint or "")
            report += tier_report
            if log:
                for check in tier_report.checks:
                    log(f"{check.tier}: {check.name}: {check.status}, {check.found}")
    return report
