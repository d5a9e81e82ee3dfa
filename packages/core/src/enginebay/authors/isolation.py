"""Child processes for authors of plugins: a call, a program or a worker with a time limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.isolation import (
        Worker as Worker,
        call as call,
        run as run,
    )
    from enginebay.operations import check_timeout as check_timeout
    from enginebay.time_limits import (
        check_time_limit as check_time_limit,
        time_left as time_left,
        time_limit as time_limit,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "isolation": "Worker call run",
        "operations": "check_timeout",
        "time_limits": "check_time_limit time_left time_limit",
    },
)
